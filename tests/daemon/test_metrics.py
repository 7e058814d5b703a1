"""Metrics and probes of the real command: what a probe finds when all is well, and when it is not."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from adapter.wire import Code

from .harness import Daemon, Node, patched
from .messages import start, stop
from .process import SAFETY


@contextmanager
def asking(path: Path, page: str) -> Iterator[socket.socket]:
    """A connection on which a page has been asked for."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(SAFETY)
        asked.connect(str(path))
        asked.sendall(f"GET {page} HTTP/1.1\r\n\r\n".encode())
        yield asked


def page(path: Path, name: str) -> tuple[int, str]:
    """A page's status and text."""
    with asking(path, name) as asked:
        text = b"".join(iter(lambda: asked.recv(1 << 16), b"")).decode()
    head, _, body = text.partition("\r\n\r\n")
    return int(head.split()[1]), body


def value(path: Path, name: str) -> str:
    """A metric without labels."""
    (found,) = re.findall(rf"^v010_adapter_{name} (.*)$", page(path, "/metrics")[1], re.MULTILINE)
    return str(found)


def served(node: Node, daemon: Daemon) -> Path:
    """Where a daemon serves metrics."""
    daemon.logged("metrics and probes at ")
    return node.path / "metrics.sock"


def launched(node: Node) -> tuple[Daemon, Path]:
    daemon = node.launch(metrics={"listen": f"unix:{node.path}/metrics.sock"})
    return daemon, served(node, daemon)


def test_events_programs_and_the_owner_are_told(node: Node) -> None:
    node.shared_state = "state"
    node.configure("good")
    daemon, path = launched(node)
    for request in ("c1", "c2"):
        assert daemon.call("StartContainer", start(request)).code == Code.OK
    assert daemon.call("StopContainer", stop("c1")).code == Code.OK
    text = page(path, "/metrics")[1].splitlines()
    assert 'v010_adapter_program_duration_seconds_count{outcome="done",program="good"} 3.0' in text
    assert 'v010_adapter_event_duration_seconds_count{event="StartContainer"} 2.0' in text
    assert {"v010_adapter_owner 1.0", "v010_adapter_joined 1.0", "v010_adapter_joins_total 1.0"} <= {*text}
    assert "v010_adapter_owed_deletes 1.0" in text
    assert page(path, "/healthz") == (200, "ok\n")
    daemon.signal(signal.SIGTERM)
    assert daemon.ended() == 0
    assert not path.exists()


def test_an_adapter_without_a_runtime_is_healthy_and_not_ready(node: Node, listener: socket.socket) -> None:
    file = node.path / "adapter.yaml"
    file.write_text(f"metrics: {{listen: 'unix:{node.path}/metrics.sock'}}")
    daemon = node.external("-idx", "00", "-config", file, "-socket", node.path / "nri.sock", listener=listener)
    daemon.registration()
    path = served(node, daemon)  # the runtime takes its time to configure the adapter
    assert page(path, "/healthz") == (200, "ok\n")
    assert page(path, "/readyz") == (503, "joining\n")
    daemon.configure()
    assert daemon.call("Synchronize").code == Code.OK
    assert page(path, "/readyz") == (200, "joined\n")
    daemon.hang_up()
    daemon.logged("the runtime has closed the connection")
    assert page(path, "/readyz")[0] == 503
    daemon.accept(listener)
    daemon.handshake()
    assert daemon.call("CreateContainer").code == Code.OK
    assert value(path, "joins_total") == "2.0"


def test_a_wedged_loop_answers_no_probe(node: Node) -> None:
    gate = node.gate()
    daemon = node.spawn(
        patched(
            "from adapter.daemon.router import Adapter",
            f"wedge = lambda self, read: __import__('subprocess').run(['sh', '-c', {gate.script!r}])",
            "Adapter.reload = wedge",
        )
    )
    daemon.handshake(node.settings(metrics={"listen": f"unix:{node.path}/metrics.sock"}))
    path = served(node, daemon)
    daemon.signal(signal.SIGHUP)
    gate.arrival()
    with asking(path, "/healthz") as asked:
        assert Path(f"/proc/{daemon.server}/task").stat().st_nlink == 3, "no thread could answer for the loop"
        gate.let_on()
        assert asked.recv(1 << 16).endswith(b"\r\n\r\nok\n")


def test_an_address_that_cannot_be_had_is_said_and_the_adapter_works(node: Node) -> None:
    listen = f"unix:{node.path}/none/metrics.sock"
    daemon = node.launch(metrics={"listen": listen})
    assert f"ERROR metrics.listen: {listen}: No such file or directory: " in daemon.logged("metrics.listen")
    node.still_serves(daemon)


def test_of_two_addresses_each_is_served_whatever_becomes_of_the_other(node: Node) -> None:
    listen = [f"unix:{node.path}/none/metrics.sock", f"unix:{node.path}/one.sock", f"unix:{node.path}/metrics.sock"]
    daemon = node.launch(metrics={"listen": listen})
    daemon.logged("metrics and probes at ", listen[2])
    assert page(node.path / "one.sock", "/healthz") == page(node.path / "metrics.sock", "/healthz") == (200, "ok\n")
    assert [line for line in daemon.log if f"ERROR metrics.listen: {listen[0]}: " in line]
    daemon.signal(signal.SIGTERM)
    assert daemon.ended() == 0
    assert not list(node.path.glob("*.sock"))


def test_an_address_that_becomes_free_is_taken(node: Node) -> None:
    first, path = launched(node)
    second = node.spawn(patched("from adapter.monitoring import endpoints", "endpoints.REOPEN_AFTER = 0.01"))
    second.handshake(node.settings(metrics={"listen": f"unix:{path}"}))
    second.logged("metrics.listen", "Address already in use")
    first.signal(signal.SIGTERM)
    assert first.ended() == 0
    served(node, second)
    assert page(path, "/readyz")[0] == 200
    assert len([line for line in second.log if "metrics.listen" in line]) == 1


def test_nothing_of_it_is_loaded_by_default(node: Node) -> None:
    telling = patched("import atexit", "atexit.register(lambda: print(sorted(sys.modules), file=sys.stderr))")
    daemon = node.spawn(telling, fresh=True).handshake(node.settings())
    node.still_serves(daemon)
    daemon.signal(signal.SIGTERM)
    assert daemon.ended() == 0
    (modules,) = (line for line in daemon.log if line.startswith("["))
    assert "'adapter.daemon.router'" in modules
    for name in ("prometheus_client", "adapter.monitoring.http_server", "adapter.monitoring.metrics"):
        assert f"'{name}'" not in modules
