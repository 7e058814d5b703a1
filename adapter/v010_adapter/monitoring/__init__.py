"""Shows the state of a running adapter: to systemd, to the command `status`, to Prometheus and probes, in the log."""
