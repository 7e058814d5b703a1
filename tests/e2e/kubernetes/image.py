"""Makes an image of busybox and more files, as an OCI archive: `image.py ARCHIVE NAME [FILE=PATH ...]`.

Without a builder, and without a registry. What the image runs is its file /entrypoint, if it has one; else it sleeps.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import sys
import tarfile
from pathlib import Path
from typing import Any

BUSYBOX = Path("/bin/busybox")
COMMANDS = ("cat", "cut", "echo", "grep", "head", "ls", "sh", "sleep", "touch", "true")
MEDIA_TYPE = "application/vnd.oci.image."
SLEEP = ["/bin/sleep", "2147483647"]
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def main(archive: str, name: str, *files: str) -> None:
    """Writes the archive of an image that has a name, and files of this machine."""
    content = dict(file.split("=", 1) for file in files)
    layer = _layer(content)
    target = {"architecture": ARCHITECTURES[platform.machine()], "os": "linux"}
    config = target | {
        "config": {"Env": ["PATH=/bin"], "Entrypoint": ["/entrypoint"] if "/entrypoint" in content else SLEEP},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    encoded = json.dumps(config).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA_TYPE}manifest.v1+json",
            "config": _described("config.v1+json", encoded),
            "layers": [_described("layer.v1.tar", layer)],
        }
    ).encode()
    named = {"platform": target, "annotations": {"io.containerd.image.name": name}}
    index = {"schemaVersion": 2, "manifests": [_described("manifest.v1+json", manifest) | named]}
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(tar, "index.json", json.dumps(index).encode())
        for blob in (layer, encoded, manifest):
            _add(tar, f"blobs/sha256/{_digest(blob).removeprefix('sha256:')}", blob)


def _layer(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for directory in ("bin", "etc", "proc", "sys", "dev"):
            _add(tar, directory, type_=tarfile.DIRTYPE)
        _add(tar, "bin/busybox", BUSYBOX.read_bytes())
        for command in COMMANDS:
            _add(tar, f"bin/{command}", type_=tarfile.SYMTYPE, link="busybox")
        for file, path in files.items():
            _add(tar, file.lstrip("/"), Path(path).read_bytes())
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, data: bytes = b"", type_: bytes = tarfile.REGTYPE, link: str = "") -> None:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.type, entry.size, entry.linkname = 0o755, type_, len(data), link
    tar.addfile(entry, io.BytesIO(data))


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _described(kind: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": MEDIA_TYPE + kind, "digest": _digest(blob), "size": len(blob)}


if __name__ == "__main__":
    main(*sys.argv[1:])
