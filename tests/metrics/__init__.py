"""What Prometheus and probes are told, and the server of these pages."""
