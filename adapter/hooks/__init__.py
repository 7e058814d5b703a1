"""The hook bridge: podman-style OCI hooks of hooks.d directories, injected into containers as they are created."""
