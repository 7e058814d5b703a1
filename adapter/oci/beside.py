"""The part of an adjustment for which an OCI specification has no place. Pure."""

from __future__ import annotations

from adapter.proto import nri_pb2 as api


def beside(adjustment: api.ContainerAdjustment) -> api.ContainerAdjustment:
    """Returns CDI devices, and the classes of block I/O and RDT: names of what runtimes look up elsewhere."""
    part = api.ContainerAdjustment(CDI_devices=adjustment.CDI_devices)
    wanted = adjustment.linux.resources
    if wanted.HasField("blockio_class"):
        part.linux.resources.blockio_class.CopyFrom(wanted.blockio_class)
    if wanted.HasField("rdt_class"):
        part.linux.resources.rdt_class.CopyFrom(wanted.rdt_class)
    return part
