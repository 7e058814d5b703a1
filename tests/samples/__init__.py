"""The sample plugins of legacy-plugins/, run as a runtime runs them."""
