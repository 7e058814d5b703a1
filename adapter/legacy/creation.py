"""What plugins, one after the other, change of a container that is being created."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from google.protobuf import json_format

from adapter import gojson, oci
from adapter.errors import NotAdjustable
from adapter.legacy.outcome import Outcome, plain, refuse
from adapter.legacy.request import Subject
from adapter.legacy.result import Result
from adapter.legacy.updates import Updates
from adapter.nri.versions import Version
from adapter.oci.beside import beside
from adapter.oci.since import refuse_unknown
from adapter.proto import nri_pb2 as api


class Creation(Outcome):
    """Of CreateContainer: the container can be adjusted as long as the answer has not gone out."""

    def __init__(
        self, event: str, request: Any, subject: Subject, updates: Updates, nri: Version, metadata_prefix: str
    ) -> None:
        """Takes also the runtime's NRI version, and what annotations' names begin with that record results' metadata.

        Where that is empty, metadata is not recorded.
        """
        super().__init__(event, request, subject, updates)
        self._nri = nri
        self._metadata_prefix = metadata_prefix
        self._edited: oci.Spec | None = None
        self._beside = api.ContainerAdjustment()
        """What has no place in a spec."""
        self._adjustment = api.ContainerAdjustment()

    @cached_property
    def _before(self) -> oci.Spec:
        """The spec as the runtime has it; made while the first plugin's program loads."""
        return oci.spec_from(self._request.pod, self._request.container)

    @property
    def _now(self) -> oci.Spec:
        return self._before if self._edited is None else self._edited

    def _spec(self) -> bytes:
        return gojson.dumps(self._now)

    def _adjust(self, plugin: str, result: Result) -> None:
        if self._answered:
            refuse(result, "it comes too late, the container is being created without it")
            return
        patch = plain("spec", result.spec)
        if result.cgroups_path and (patch is None or isinstance(patch, dict)):
            patch = {"cgroupsPath": plain("cgroupsPath", result.cgroups_path), **(patch or {})}
        adjust = plain("adjust", result.adjust)
        metadata = result.metadata if self._metadata_prefix else {}
        annotations = {
            f"{self._metadata_prefix}{os.path.basename(plugin)}.{key}": value for key, value in metadata.items()
        }
        if patch is not None or adjust is not None or annotations:
            self._edit(patch, adjust, annotations)

    def _edit(self, patch: Any, adjust: Any, annotations: Mapping[str, str]) -> None:
        now = self._now if patch is None else oci.merged(self._now, patch)
        without_place = api.ContainerAdjustment()
        without_place.CopyFrom(self._beside)
        if adjust is not None:
            message = _message(adjust)
            oci.adjustment(self._before, now)  # what comes out of a patch may be no specification
            now = oci.apply(now, message)
            without_place.MergeFrom(beside(message))
        if annotations:
            now = {**now, "annotations": {**now.get("annotations", {}), **annotations}}
        adjustment = oci.adjustment(self._before, now)
        adjustment.MergeFrom(without_place)
        refuse_unknown(adjustment, self._nri)
        self._edited, self._beside, self._adjustment = now, without_place, adjustment

    def _response(self) -> Any:
        return api.CreateContainerResponse(adjust=self._adjustment) if self._adjustment.ByteSize() else None


def _message(adjust: Any) -> api.ContainerAdjustment:
    try:
        return json_format.ParseDict(adjust, api.ContainerAdjustment())
    except Exception as error:  # what is wrong with it comes in many types
        raise NotAdjustable("adjust", str(error)) from None
