#!/opt/v010-adapter/bin/python3 -I
"""Gives pods the devices that they name in an annotation, if the administrator allows them in the pod's namespace.

The configuration, conf.d/40-devices.conf: `allowed = {build = ["/dev/fuse", "/dev/kvm"]}`.
"""

import os
import stat
import tomllib

from nri import Adjustment, Context, Plugin, api, run
from nri.errors import NRIError

ANNOTATION = "devices.example.com/paths"


class Devices(Plugin):
    """Knows which devices each namespace may use."""

    def configure(self, request: api.ConfigureRequest, context: Context) -> None:
        allowed: dict[str, list[str]] = tomllib.loads(request.config)["allowed"]  # an error: the plugin does not start
        self._allowed = allowed

    def create_container(
        self, request: api.CreateContainerRequest, context: Context
    ) -> api.CreateContainerResponse | None:
        response = api.CreateContainerResponse()
        adjust = Adjustment(response.adjust)
        for path in request.pod.annotations.get(ANNOTATION, "").split():
            if path not in self._allowed.get(request.pod.namespace, ()):
                raise NRIError(f"{path!r} is not allowed in the namespace {request.pod.namespace}")
            device = os.stat(path)
            major, minor, mode = os.major(device.st_rdev), os.minor(device.st_rdev), stat.S_IMODE(device.st_mode)
            adjust.devices.add(path, "b" if stat.S_ISBLK(device.st_mode) else "c", major, minor, mode=mode)
        return response


if __name__ == "__main__":
    run(Devices(), name="devices", idx="40")
