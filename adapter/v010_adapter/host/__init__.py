"""The node that the adapter runs on: paths, trust in files, mount namespaces, private directories."""
