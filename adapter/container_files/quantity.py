"""Converts the CPU and memory of a Kubernetes manifest to NRI's resources, as the kubelet does.

Source: kubernetes pkg/kubelet/cm/helpers_linux.go (MilliCPUToShares, MilliCPUToQuota) and
apimachinery/pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import re
from fractions import Fraction

from adapter.container_files.document import Value
from adapter.proto import nri_pb2 as api

_NUMBER = re.compile(
    r"(?!.{1000})([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]{1,3})|([KMGTPE]i|[numkMGTPE]))?"
)
_SUFFIXES = {suffix: Fraction(1000) ** power for power, suffix in enumerate("num.kMGTPE", start=-3)}
_SUFFIXES |= {f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)}
_PERIOD = 100_000
_SHARES = (2, 262_144)
_LEAST_QUOTA = 1_000
_MOST = (1 << 63) - 1


def resources(value: Value) -> api.LinuxResources:
    """Returns NRI's resources for the `resources` of a manifest's container. Raises ConfigError."""
    limits, requests = value["limits"], value["requests"]
    cpu_limit, cpu_request = _quantity(limits["cpu"]), _quantity(requests["cpu"])
    memory_limit = _quantity(limits["memory"])
    message = api.LinuxResources()
    request = cpu_limit if cpu_request is None else cpu_request
    shares = int((request or 0) * 1000) * 1024 // 1000
    message.cpu.shares.value = min(max(shares, _SHARES[0]), _SHARES[1])
    if cpu_limit:
        message.cpu.quota.value = min(max(int(cpu_limit * 1000) * _PERIOD // 1000, _LEAST_QUOTA), _MOST)
        message.cpu.period.value = _PERIOD
    if memory_limit:
        message.memory.limit.value = min(int(memory_limit), _MOST)
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
