"""The errors that this package raises on purpose. Their texts name the place: file, plugin or peer."""

from __future__ import annotations

from collections.abc import Collection

from nri.errors import NRIError, nearest


class _ErrorAt(NRIError):
    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason


class ConfigError(_ErrorAt):
    """A configuration cannot be used. The place is `FILE`, `FILE:LINE` or `FILE: KEY`."""


def yaml_error(place: str, text: str, error: Exception) -> ConfigError:
    """Returns a ConfigError for an error that PyYAML has raised for a text, with the line if it is known."""
    mark = getattr(error, "problem_mark", None)
    position = getattr(error, "position", None)  # of a character that is not allowed in YAML
    line = text[:position].count("\n") if position is not None else mark.line if mark else None
    reason = "nested too deeply" if isinstance(error, RecursionError) else reason_of(error)
    return ConfigError(place if line is None else f"{place}:{line + 1}", reason)


def unknown(what: str, word: str, known: Collection[str]) -> str:
    """Returns the reason of an error about an unknown word. It suggests the most similar known word, or lists all."""
    near = nearest(word, known)
    return f"unknown {what}; did you mean `{near}`?" if near else f"unknown {what}; known: {', '.join(known)}"


def reason_of(error: Exception) -> str:
    """Returns the text of any error, without the path, and without the lines in which PyYAML shows the place."""
    reasons = (getattr(error, name, None) for name in ("strerror", "problem", "reason"))
    return str(next(filter(None, reasons), error))


class ProgramError(NRIError):
    """A program has failed, or could not be run. `reason` does not name the `program`."""

    def __init__(self, text: str, program: str, reason: str) -> None:
        super().__init__(f"{text}: {reason}")
        self.program = program
        self.reason = reason


class PluginError(ProgramError):
    """A legacy plugin failed. The text has the original client's form (containerd/nri client.go, InvokeWithSandbox)."""

    def __init__(self, plugin: str, reason: str) -> None:
        super().__init__(f"plugin: {plugin}", plugin, reason)


class PrecreateError(ProgramError):
    """A precreate hook failed. The text names the hook's file."""

    def __init__(self, file: str, reason: str) -> None:
        name = file.rpartition("/")[2]  # runs are counted by this name: only one file of a name is in force
        super().__init__(f"precreate hook {file}", name, reason)


class Oversized(_ErrorAt):
    """A field of a container is larger than Kubernetes or the kernel accepts, or than the time of the event allows."""


class NotAdjustable(_ErrorAt):
    """NRI or the runtimes cannot express a requested change.

    The place is in the OCI specification: `process.user`, `linux.resources.memory.swap`, `mounts[/data]`.
    """
