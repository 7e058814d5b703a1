"""What others learn of a running adapter: systemd, the command `status`, Prometheus, probes."""
