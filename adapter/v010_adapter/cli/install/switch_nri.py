"""Switches NRI on in a node's runtime, and undoes it: by a drop-in, or in the one configuration file that stays.

The image's `switch-nri-on` does both. `install` and `uninstall` use the drop-in alone.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress

from nri.address import address
from v010_adapter.cli import systems
from v010_adapter.cli.check import nri
from v010_adapter.cli.install.things import File, State, write
from v010_adapter.cli.systems import System
from v010_adapter.cli.terminal import show
from v010_adapter.errors import ConfigError, unknown
from v010_adapter.host import paths
from v010_adapter.host.paths import in_root

HEADER = "# v010-adapter has written this file to switch NRI on. `v010-adapter uninstall` removes it.\n"
KEPT = ".before-v010-adapter"
"""The suffix of the copy of an edited configuration."""
_TABLE = re.compile(rf"(?m)^\s*\[\s*plugins\s*\.\s*[\"']{re.escape(nri.NRI)}[\"']\s*\][^\n]*\n")
_NEXT_TABLE = re.compile(r"(?m)^\s*\[")
_DISABLE = re.compile(r"(?m)^\s*disable\s*=.*\n?")


def drop_in(system: System, root: str) -> File | None:
    """Returns the drop-in that switches NRI on, None if the runtime reads none. Raises ConfigError."""
    path = nri.drop_in(system, root)
    text = HEADER + nri.SETTINGS[system.runtime].text
    return File(root, path, text, lambda text: text.startswith(HEADER)) if path else None


def wanted(root: str) -> Iterator[File]:
    """Yields the drop-ins that the runtimes on this node need. `check` reports files that cannot be read."""
    serves = any(os.path.exists(in_root(root, path)) for path in systems.NRI_SOCKETS)
    for system in systems.present(root):
        with suppress(ConfigError):
            is_on = nri.is_on(system, nri.read(system, root))
            file = drop_in(system, root)
            is_ours = file is not None and file.state() in (State.CURRENT, State.OLD)
            needs = is_ours or is_on is False or (is_on is None and not serves)
            if file and needs and not nri.obstacle(system, root):
                yield file


def off(root: str, planned: Sequence[File]) -> Iterator[System]:
    """Yields the systems on this node that say that NRI is off, if none of the planned drop-ins switches it on."""
    with suppress(ConfigError):
        found = [one for one in systems.present(root) if nri.is_on(one, nri.read(one, root)) is False]
        yield from (one for one in found if nri.drop_in(one, root) not in {file.path for file in planned})


def present(root: str) -> Iterator[File]:
    """Yields the drop-ins for the runtimes on this node, whether they exist or not."""
    for system in systems.present(root):
        with suppress(ConfigError):
            if file := drop_in(system, root):
                yield file


def switch_on(root: str, path: str, name: str) -> str:
    """Switches NRI on in the runtime of a system (`auto`: the one here), and restarts it. Returns why that failed.

    Does nothing where a runtime serves NRI at `path`: the file alone may be left by a runtime that was killed.
    """
    with suppress(OSError), socket.socket(socket.AF_UNIX) as runtime, address(path) as short:
        runtime.connect(short)
        show("NRI is on")
        return ""
    if not (found := _systems(root, name)):
        return "no runtime found: " + ", ".join(dict.fromkeys(system.socket for system in systems.SYSTEMS))
    system, *_ = found
    try:
        written = _write(system, root)
    except (ConfigError, ValueError, OSError) as error:
        return f"{system.name}: {error}"
    if not written:
        show(f"NRI is on in {nri.main_file(system, root)}")
        return ""
    show(f"NRI is switched on in {written}")
    return _restart(system, root)


def undo(root: str, name: str) -> str:
    """Removes what `switch_on` has written, and restarts the runtimes. Returns why that failed, empty if it did not."""
    for system in _systems(root, name):
        try:
            file, main = drop_in(system, root), in_root(root, nri.main_file(system, root))
            if file is not None and file.state() in (State.CURRENT, State.OLD):
                file.remove()
            elif os.path.exists(main + KEPT):
                _restore(main)
            else:
                continue
        except (ConfigError, ValueError, OSError) as error:
            return f"{system.name}: {error}"
        show(f"{system.name}: NRI is as it was before")
        if reason := _restart(system, root):
            return reason
    return ""


def _systems(root: str, name: str) -> list[System]:
    if name == "auto":
        return systems.present(root)
    if name not in systems.NAMES:
        raise ConfigError(name, unknown("system", name, ["auto", *systems.NAMES]))
    return [systems.NAMES[name]]


def _write(system: System, root: str) -> str:
    """Returns the file that was written, empty if NRI was on. Raises ConfigError, ValueError and OSError."""
    if reason := nri.obstacle(system, root):
        raise ValueError(reason)
    if nri.is_on(system, nri.read(system, root)):
        return ""
    if file := drop_in(system, root):
        file.make()
        return file.path
    main = nri.main_file(system, root)
    if main != system.editable:
        raise ValueError(f"NRI is off; to switch it on: {nri.hint(system, root)}")
    place = in_root(root, main)
    before = paths.read_text(place) or ""
    mode = os.stat(place).st_mode & 0o777 if os.path.exists(place) else 0o644
    write(place + KEPT, before, mode)
    write(place, patched(before), mode)
    return main


def _restore(main: str) -> None:
    before = paths.read_text(main + KEPT) or ""
    if patched(before) != paths.read_text(main):
        raise ValueError(f"{main} was changed since; {main}{KEPT} is how it was before NRI was switched on")
    if before:
        os.replace(main + KEPT, main)
    else:
        os.unlink(main)
        os.unlink(main + KEPT)


def patched(text: str) -> str:
    """Returns the text of containerd's configuration with NRI switched on. Raises ValueError."""
    config = tomllib.loads(text or "version = 2")
    if config.get("version", 1) < 2:  # noqa: PLR2004 - the first with plugins' full names
        raise ValueError("its configuration has version 1, and NRI cannot be switched on there")
    table = _TABLE.search(text)
    if table is None:
        text = f"{text.rstrip() or 'version = 2'}\n\n[plugins.'{nri.NRI}']\n  disable = false\n"
    else:
        following = _NEXT_TABLE.search(text, table.end())
        end = following.start() if following else len(text)
        text = f"{text[: table.end()]}  disable = false\n{_DISABLE.sub('', text[table.end() : end])}{text[end:]}"
    if tomllib.loads(text)["plugins"][nri.NRI]["disable"] is not False:
        raise ValueError("NRI cannot be switched on in its configuration")
    return text


def _restart(system: System, root: str) -> str:
    unit = systems.unit(system, root)
    if not unit:
        return f"{system.name}: restart it, for it has no unit of systemd"
    show(f"{unit} restarts")
    # In a chroot, systemctl may do nothing, and say that all is well (systemd, docs/ENVIRONMENT.md).
    environment = os.environ | {"SYSTEMD_OFFLINE": "0"}
    line = ["chroot", root, "systemctl", "restart", unit]
    done = subprocess.run(line, env=environment, check=False)  # noqa: S603
    return f"{unit}: it does not restart" if done.returncode else ""
