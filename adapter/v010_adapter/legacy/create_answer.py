"""The answer to CreateContainer: what the legacy plugins, one after the other, change of the new container."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from nri.proto import nri_pb2 as api
from nri.runtimes import Runtime
from v010_adapter.legacy.answer import AnswerBuilder, plain, refuse
from v010_adapter.legacy.pending_updates import PendingUpdates
from v010_adapter.legacy.request import Target
from v010_adapter.legacy.result import Result
from v010_adapter.oci import protojson
from v010_adapter.oci.fields_by_version import refuse_unknown
from v010_adapter.oci.patch import in_order, merged
from v010_adapter.oci.spec import adjustment, apply, outside_spec, read
from v010_adapter.oci.values import members


class CreateAnswerBuilder(AnswerBuilder):
    """Builds the answer to CreateContainer: the container can be adjusted until the answer has gone out."""

    _CHANGED = (*AnswerBuilder._CHANGED, "_outside_spec", "_adjustment")

    def __init__(
        self, event: str, request: Any, target: Target, updates: PendingUpdates, runtime: Runtime, metadata_prefix: str
    ) -> None:
        """Results' metadata is recorded as annotations with the prefix `metadata_prefix`, unless that is empty."""
        super().__init__(event, request, target, updates)
        self._runtime = runtime
        self._metadata_prefix = metadata_prefix
        self._outside_spec = api.ContainerAdjustment()
        self._adjustment = api.ContainerAdjustment()

    def _adjust(self, plugin: str, result: Result) -> None:
        if self.is_answered:
            refuse(result, "it comes too late, the container is being created without it")
            return
        patch = plain("spec", result.spec)
        if result.cgroups_path not in (None, "") and isinstance(patch, dict | None):
            patch = {"cgroupsPath": plain("cgroupsPath", result.cgroups_path), **(patch or {})}
        adjust = plain("adjust", result.adjust)
        prefix = f"{self._metadata_prefix}{os.path.basename(plugin)}."
        metadata = result.metadata if self._metadata_prefix else {}
        annotations = {prefix + key: value for key, value in metadata.items()}
        if patch is not None or adjust is not None or annotations:
            self._edit(patch, adjust, annotations)

    def _edit(self, patch: Any, adjust: Any, annotations: Mapping[str, str]) -> None:
        patch = {} if patch is None else in_order(patch)
        named = None if adjust is not None else {"annotations": None, **patch} if annotations else patch
        read(self._container, named, self._before, self._edited)
        spec = merged(self._edited, patch)
        outside = self._outside_spec
        if adjust is not None:
            message = protojson.parse(adjust, "adjust")
            adjustment(self._before, spec)  # a patched spec may be no specification
            spec = apply(spec, message)
            outside = outside_spec(outside, message)
        if annotations:
            spec = {**spec, "annotations": {**members(spec.get("annotations"), "annotations"), **annotations}}
        adjusted = adjustment(self._before, spec)
        adjusted.MergeFrom(outside)
        refuse_unknown(adjusted, self._runtime.nri, self._runtime.name)
        self._edited, self._outside_spec, self._adjustment = spec, outside, adjusted
        self._extension = None

    def _response(self) -> Any:
        return api.CreateContainerResponse(adjust=self._adjustment) if self._adjustment.ByteSize() else None
