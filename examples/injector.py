#!/opt/v010-adapter/bin/python3 -I
"""An NRI plugin that injects an OCI hook into the containers whose pod asks for it with an annotation."""

from nri import Context, Plugin, api, run

ANNOTATION = "hooks.example.com/record"
PROGRAM = "/usr/local/libexec/oci/record"
"""A program on the node. A runtime that cannot run it fails the container."""
TIMEOUT = 10
"""Seconds after which the runtime kills the program and fails the container."""


class Injector(Plugin):
    """Records the state of a container when its namespaces exist, and after its end."""

    def create_container(
        self, request: api.CreateContainerRequest, context: Context
    ) -> api.CreateContainerResponse | None:
        if request.pod.annotations.get(ANNOTATION) != "yes":
            return None
        arguments = ["record", f"/var/log/{request.container.name}.jsonl"]  # begins with argv[0]
        hook = api.Hook(path=PROGRAM, args=arguments, timeout=api.OptionalInt(value=TIMEOUT))
        response = api.CreateContainerResponse()
        response.adjust.hooks.create_runtime.append(hook)
        response.adjust.hooks.poststop.append(hook)
        return response


if __name__ == "__main__":
    run(Injector(), name="injector", idx="20")
