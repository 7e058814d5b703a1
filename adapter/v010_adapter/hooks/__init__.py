"""The hook bridge: injects podman-style OCI hooks from hooks.d directories into containers as they are created."""
