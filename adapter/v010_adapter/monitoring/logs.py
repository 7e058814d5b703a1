"""The adapter's log: to stderr, or to syslog if stderr is /dev/null, as in plugins that runtimes launch."""

from __future__ import annotations

import logging

from nri.syslog import SYSLOG, NonBlockingHandler, Syslog, stderr_is_null
from v010_adapter.monitoring.log_handlers import LineFormatter, Stderr
from v010_adapter.settings import LogSettings

log = logging.getLogger(__name__)

TAG = "v010-adapter"
RUNS = "v010_adapter.runs"
"""The logger of one line for each run."""
logging.getLogger(RUNS).disabled = True  # until `setup`


def setup(settings: LogSettings, *, syslog: str = SYSLOG) -> None:
    """Sends all log lines to the target that the settings name. Keeps the lines that are not written yet."""
    to_syslog = settings.target == "syslog" or (settings.target == "auto" and stderr_is_null())
    root = logging.getLogger()
    same = [handler for handler in root.handlers if isinstance(handler, Syslog if to_syslog else Stderr)]
    handler = same[0] if same else Syslog(syslog, TAG) if to_syslog else Stderr()
    as_json = settings.format == "json"
    handler.setFormatter(LineFormatter(handler.limit, as_json=as_json, secrets=settings.secrets, head=not to_syslog))
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    logging.getLogger(RUNS).disabled = not settings.runs


def flush() -> int:
    """Writes as many kept lines as possible without blocking; returns the number of written lines."""
    handlers = [handler for handler in logging.getLogger().handlers if isinstance(handler, NonBlockingHandler)]
    before = sum(handler.pending for handler in handlers)
    for handler in handlers:
        handler.flush()
    return before - sum(handler.pending for handler in handlers)
