"""`install` and `uninstall`."""
