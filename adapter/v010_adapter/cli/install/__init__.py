"""The commands `install` and `uninstall`: the links and files that start and configure the adapter on a node."""
