"""Hook files of podman's kind: reading, matching, and what they inject. `events.hooks` does so at each creation."""
