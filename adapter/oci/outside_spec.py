"""The part of an adjustment that an OCI specification cannot express."""

from __future__ import annotations

from adapter.proto import nri_pb2 as api


def outside_spec(*adjustments: api.ContainerAdjustment) -> api.ContainerAdjustment:
    """Returns the CDI devices and the classes of block I/O and RDT of adjustments. Runtimes look these up by name.

    A later class replaces an earlier one. Duplicate CDI devices are removed, because they would fail the container.
    """
    part = api.ContainerAdjustment()
    names = {device.name for adjustment in adjustments for device in adjustment.CDI_devices}
    for adjustment in adjustments:
        for device in adjustment.CDI_devices:
            if device.name in names:
                names.remove(device.name)
                part.CDI_devices.append(device)
        resources = adjustment.linux.resources
        if resources.HasField("blockio_class"):
            part.linux.resources.blockio_class.CopyFrom(resources.blockio_class)
        if resources.HasField("rdt_class"):
            part.linux.resources.rdt_class.CopyFrom(resources.rdt_class)
    return part
