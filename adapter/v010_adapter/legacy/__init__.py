"""NRI v0.1.0 plugins: one-shot programs that get a request as JSON and print a result. `events` runs them."""
