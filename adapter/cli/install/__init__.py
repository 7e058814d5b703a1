"""The commands `install` and `uninstall`: what starts the adapter on a node, and its configuration file."""
