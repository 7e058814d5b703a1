#!/opt/v010-adapter/bin/python3 -I
"""The NRI part of a DRA driver: it tracks which containers use which claim. CDI writes the claim to their variables."""

from nri import Context, Plugin, api, run

VARIABLE = "DRA_EXAMPLE_CLAIM="
RUNNING = (api.CONTAINER_RUNNING, api.CONTAINER_PAUSED)


class Claims(Plugin):
    """Prints when the first container of a claim starts, and when the last one has ended."""

    def __init__(self) -> None:
        """Starts without claims. Synchronize adds those in use."""
        self._claims: dict[str, str] = {}

    def synchronize(self, request: api.SynchronizeRequest, context: Context) -> None:
        for container in request.containers:
            if container.state in RUNNING:
                self._begin(container)

    def start_container(self, request: api.StartContainerRequest, context: Context) -> None:
        self._begin(request.container)

    def stop_container(self, request: api.StopContainerRequest, context: Context) -> None:
        claim = self._claims.pop(request.container.id, None)
        if claim and claim not in self._claims.values():
            print(f"{claim} is free")

    def _begin(self, container: api.Container) -> None:
        for variable in container.env:
            if variable.startswith(VARIABLE):
                claim = variable.removeprefix(VARIABLE)
                if claim not in self._claims.values():
                    print(f"{claim} is in use")
                self._claims[container.id] = claim


if __name__ == "__main__":
    run(Claims(), name="dra-driver", idx="30")
