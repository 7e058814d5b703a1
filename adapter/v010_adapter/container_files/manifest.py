"""Reads Kubernetes manifests: pods and templates of pods, and their containers as the kubelet requests them.

Sources: containerd internal/cri/opts, spec_linux_opts.go, WithMounts (the mounts' options); kubernetes
pkg/kubelet/cm/helpers_linux.go, MilliCPUToShares, MilliCPUToQuota; apimachinery/pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from math import ceil

from nri.proto import nri_pb2 as api
from v010_adapter.container_files.described import ADDED_ANNOTATIONS, ADDED_VOLUME, IMAGE_DECIDES, Described
from v010_adapter.container_files.document import Value

KEYS = {"apiVersion", "kind"}

_TEMPLATES = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"), ("template",))
"""The paths of a pod's template: in a Deployment and similar objects, in a CronJob, in a PodTemplate."""
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - no password
"""Kubernetes adds a volume there to all containers that have none (plugin/pkg/admission/serviceaccount)."""
_PROPAGATION = {"HostToContainer": "rslave", "Bidirectional": "rshared"}
_NUMBER = re.compile(
    r"(?!.{1000})([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]{1,3})|([KMGTPE]i|[numkMGTPE]))?"
)
_SUFFIXES = {suffix: Fraction(1000) ** power for power, suffix in enumerate("num.kMGTPE", start=-3)}
_SUFFIXES |= {f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)}
_PERIOD = 100_000
_SHARES = (2, 262_144)
_LEAST_QUOTA = 1_000
_MOST = (1 << 63) - 1


def pods(manifests: Iterable[Value], kind: str = "") -> Iterator[tuple[Value, api.PodSandbox]]:
    """Yields each Pod and each template of a pod, with the pod as far as known. Other manifests are skipped.

    `kind` is the kind of manifests without `kind`, as in a PodList. Raises ConfigError.
    """
    for manifest in manifests:
        own = manifest["kind"].text or kind
        if own.endswith("List"):
            yield from pods(manifest["items"], own.removesuffix("List"))
        elif own == "Pod":
            yield manifest, _pod(manifest["metadata"], manifest["metadata"])
        elif template := _template(manifest):
            yield template, _pod(template["metadata"], manifest["metadata"])


def containers(pod: Value) -> Iterator[Value]:
    """Yields the containers of a Pod, or of a template of a pod."""
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        yield from pod["spec"][kind]


def container(template: Value, pod: api.PodSandbox, value: Value, command: str) -> Described:
    """Returns a container of a pod or of its template. `command` is its image's entrypoint. Raises ConfigError."""
    args = value["command"].texts or ([command] if command else [])
    unknown = [ADDED_ANNOTATIONS, *_unknown_volume(template["spec"], value), *_unknown_variables(value)]
    if not args:
        unknown.append(IMAGE_DECIDES)
    volumes = {volume["name"].text: volume for volume in template["spec"]["volumes"]}
    message = api.Container(
        name=value["name"].text,
        linux=api.LinuxContainer(resources=_resources(value["resources"])),
        args=args and args + value["args"].texts,
        env=[f"{variable['name'].text}={variable['value'].text}" for variable in value["env"]],
        mounts=[_mount(mount, volumes) for mount in value["volumeMounts"]],
    )
    return Described("a Kubernetes manifest", pod, message, tuple(unknown))


def _template(manifest: Value) -> Value | None:
    for path in _TEMPLATES:
        value = manifest
        for key in path:
            value = value[key]
        if value.keys:
            return value
    return None


def _pod(metadata: Value, holder: Value) -> api.PodSandbox:
    """Returns a pod. A template has neither name nor namespace, so the `holder` of the template provides them."""
    return api.PodSandbox(
        name=metadata["name"].text or holder["name"].text,
        namespace=metadata["namespace"].text or holder["namespace"].text,
        labels=metadata["labels"].named_texts,
        annotations=metadata["annotations"].named_texts,
    )


def _unknown_volume(spec: Value, container: Value) -> Iterator[str]:
    paths = {mount["mountPath"].text for mount in container["volumeMounts"]}
    if spec["automountServiceAccountToken"].data is not False and _TOKEN_PATH not in paths:
        yield ADDED_VOLUME


def _unknown_variables(container: Value) -> Iterator[str]:
    for variable in container["env"]:
        for source in sorted(variable["valueFrom"].keys):
            yield f"the value of the variable {variable['name'].text} ({source})"
    for origin in container["envFrom"]:
        for kind in sorted(origin.keys - {"prefix"}):
            yield f"the variables of the {kind.removesuffix('Ref')} {origin[kind]['name'].text} (envFrom)"


def _mount(mount: Value, volumes: Mapping[str, Value]) -> api.Mount:
    """Returns a mount. The source is known for a hostPath only; else it is the name of the volume."""
    source = name = mount["name"].text
    if name in volumes and (path := volumes[name]["hostPath"]["path"].text):
        source = "/".join(filter(None, (path, mount["subPath"].text)))
    propagation = _PROPAGATION.get(mount["mountPropagation"].text, "rprivate")
    options = ["rbind", propagation, "ro" if mount["readOnly"].data is True else "rw"]
    return api.Mount(destination=mount["mountPath"].text, type="bind", source=source, options=options)


def _resources(value: Value) -> api.LinuxResources:
    limits, requests = value["limits"], value["requests"]
    cpu_limit, cpu_request = _quantity(limits["cpu"]), _quantity(requests["cpu"])
    memory_limit = _quantity(limits["memory"])
    message = api.LinuxResources()
    request = cpu_limit if cpu_request is None else cpu_request
    shares = ceil((request or 0) * 1000) * 1024 // 1000  # Kubernetes rounds up (Quantity.MilliValue, Value)
    message.cpu.shares.value = min(max(shares, _SHARES[0]), _SHARES[1])
    if cpu_limit:
        message.cpu.quota.value = min(max(ceil(cpu_limit * 1000) * _PERIOD // 1000, _LEAST_QUOTA), _MOST)
        message.cpu.period.value = _PERIOD
    if memory_limit:
        message.memory.limit.value = min(ceil(memory_limit), _MOST)
    return message


def _quantity(value: Value) -> Fraction | None:
    """Returns the quantity of a number, or of a text such as `500m` or `64Mi`; None if absent. Raises ConfigError."""
    if value.data is None:
        return None
    number = isinstance(value.data, int | float) and not isinstance(value.data, bool)
    match = _NUMBER.fullmatch(str(value.data) if number else value.text)
    if match is None or match[1].startswith("-"):
        raise value.error(f"{value.data!r} is no quantity such as 500m or 64Mi")
    return Fraction(match[1] + (match[2] or "")) * _SUFFIXES.get(match[3], Fraction(1))
