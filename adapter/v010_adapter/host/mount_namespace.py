"""The mount namespace of the programs that the adapter starts. If the adapter runs in a container, it is the node's.

A legacy plugin may be a script, may be linked with the node's libraries, and may read any file of the node. So it must
find these files at their own paths. The adapter itself stays in its container, where its Python is. To start a program,
the adapter enters the node's namespace, which the program inherits, and returns. That takes a microsecond.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from v010_adapter.errors import ConfigError

OWN = "/proc/self/ns/mnt"
_NEWNS = 0x20000
"""CLONE_NEWNS of sched.h."""


P = ParamSpec("P")
T = TypeVar("T")


class MountNamespace:
    """Calls functions in the mount namespace of programs. Until `use`, that is this process's own."""

    def __init__(self) -> None:
        self.is_foreign = False
        """Whether programs see other files than this process."""

    def use(self, path: str) -> None:
        """Sets the namespace by its file, such as /proc/1/ns/mnt. Raises ConfigError.

        To enter it, a process needs CAP_SYS_ADMIN and CAP_SYS_CHROOT, and must have only one thread (setns(2)).
        """
        if path == OWN:
            return
        import ctypes  # a megabyte; os.setns comes with Python 3.12  # noqa: PLC0415

        self._setns = ctypes.CDLL(None, use_errno=True).setns
        self._errno = ctypes.get_errno
        try:
            self._own, self._foreign = (os.open(file, os.O_RDONLY | os.O_CLOEXEC) for file in (OWN, path))
            self.is_foreign = True
            self.call(lambda: None)
        except OSError as error:
            raise ConfigError("mountNamespace", f"{path}: {error.strerror}") from None

    def call(self, function: Callable[P, T], *of: P.args, **how: P.kwargs) -> T:
        """Calls a function in the namespace. It must not import modules: these are files of this process."""
        if not self.is_foreign:
            return function(*of, **how)
        self._enter(self._foreign)
        try:
            return function(*of, **how)
        finally:
            self._enter(self._own)

    def _enter(self, namespace: int) -> None:
        if self._setns(namespace, _NEWNS):
            raise OSError(self._errno(), os.strerror(self._errno()))


programs_namespace = MountNamespace()
"""The mount namespace of the programs that this process starts."""
