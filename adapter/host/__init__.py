"""The machine that the adapter runs on: paths, trust in files, mount namespaces, the state directory."""
