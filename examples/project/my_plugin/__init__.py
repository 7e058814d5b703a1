"""An NRI plugin that sets a container's CPU shares by an annotation of its pod."""

import argparse

from nri import Adjustment, Context, Plugin, api, run
from nri.errors import NRIError

ANNOTATION = "my-plugin.example.com/cpu-shares"


class CPUShares(Plugin):
    """Pod authors choose the shares, up to a limit of the administrator."""

    def __init__(self, most: int) -> None:
        """Takes the limit."""
        self._most = most

    def create_container(
        self, request: api.CreateContainerRequest, context: Context
    ) -> api.CreateContainerResponse | None:
        """Refuses a container whose annotation is no number, or above the limit."""
        wanted = request.pod.annotations.get(ANNOTATION)
        if wanted is None:
            return None
        if not (wanted.isascii() and wanted.isdigit() and 1 < int(wanted[:10]) <= self._most):
            raise NRIError(f"{ANNOTATION}: {wanted[:20]!r} is no number from 2 to {self._most}")
        response = api.CreateContainerResponse()
        Adjustment(response.adjust).cpu.shares = int(wanted)
        return response


def main() -> None:
    """Runs the program `my-plugin`."""
    parser = argparse.ArgumentParser(allow_abbrev=False, epilog="-name, -idx and -socket are the stub's")
    parser.add_argument("--most", type=int, default=1024, help="the most shares that a pod may have")
    options, words = parser.parse_known_args()
    run(CPUShares(options.most), "my-plugin", "30", words=words, reconnect=True)
