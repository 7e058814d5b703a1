"""Makes an image of busybox and more files, as `docker save` does: `image.py ARCHIVE NAME [FILE=PATH ...]`.

Without a builder, and without a registry. What the image runs is its file /entrypoint, if it has one; else it sleeps.
"""

from __future__ import annotations

import json
import sys
import tarfile
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from platform import machine

COMMANDS = ("cat", "cut", "echo", "env", "grep", "head", "ls", "sh", "sleep", "touch", "true")
SLEEP = ["/bin/sleep", "1000000"]
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def main(archive: str, name: str, *files: str, stop_signal: str = "SIGTERM") -> None:
    content = dict(file.split("=", 1) for file in files)
    layer = _layer(content)
    entrypoint = ["/entrypoint"] if "/entrypoint" in content else SLEEP
    config = {
        "architecture": ARCHITECTURES.get(machine(), machine()),
        "os": "linux",
        "config": {"Entrypoint": entrypoint, "Env": ["PATH=/bin"], "StopSignal": stop_signal},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        _add(tar, "layer.tar", layer)
        _add(tar, "config.json", json.dumps(config).encode())
        _add(tar, "manifest.json", json.dumps(manifest).encode())


def _layer(files: dict[str, str]) -> bytes:
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for directory in ("bin", "etc", "proc", "sys", "dev"):
            _add(tar, directory, type_=tarfile.DIRTYPE)
        for command in COMMANDS:
            _add(tar, f"bin/{command}", type_=tarfile.SYMTYPE, link="busybox")
        for file, path in {"bin/busybox": "/bin/busybox", **files}.items():
            _add(tar, file.lstrip("/"), Path(path).read_bytes())
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, data: bytes = b"", type_: bytes = tarfile.REGTYPE, link: str = "") -> None:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.type, entry.size, entry.linkname = 0o755, type_, len(data), link
    tar.addfile(entry, BytesIO(data))


if __name__ == "__main__":
    main(*sys.argv[1:])
