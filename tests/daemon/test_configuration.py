"""The adapter's own configuration in the running daemon: which one counts, and what becomes of a wrong one."""

from __future__ import annotations

import pytest

from nri.wire import Code

from ..rig.machine import Machine, patched, start, stop

WRONG = """\
legacy:
  onFailure: perhaps
  unheardOf: 1
log: {level: debug}
"""
WRONG_LINES = (
    ":2: legacy.onFailure: must be one of fail, ignore",
    ":3: legacy.unheardOf: unknown key; known: ",
)
FAILS = "runtime: {failRequest: true}\n"
OF_RUNTIME = "ERROR configuration from the runtime"
IGNORED = "(ignored)"


def test_of_file_and_runtimes_text_one_counts_and_its_errors_are_told(node: Machine, subtests: pytest.Subtests) -> None:
    """tests/test_settings.py has every text."""
    config = node.path / "adapter.yaml"
    command = patched(f"settings.DEFAULT_PATH = {str(config)!r}")
    for file, mode, text, does_file_count, logged in (
        ("", 0o644, "", False, []),
        (FAILS, 0o644, " \n", True, []),
        (FAILS, 0o644, node.settings(), False, []),
        (WRONG + FAILS, 0o644, "", True, [("ERROR", f" {config}{line}", IGNORED) for line in WRONG_LINES]),
        (FAILS, 0o666, "", False, [("ERROR", f"{config} is world-writable (ignored)")]),
        (FAILS, 0o664, "", True, [("WARNING", f"{config} is writable for group")]),
        (FAILS, 0o644, "legacy: {config: '/a'", False, [(OF_RUNTIME, ":1: expected ',' or '}'")]),
        (FAILS, 0o644, "legacy:\n  timeout: -1\n", False, [(f"{OF_RUNTIME}:2: legacy.timeout: must be", IGNORED)]),
    ):
        with subtests.test(file=file, mode=mode, text=text):
            config.write_text(file)
            config.chmod(mode)
            daemon = node.spawn(command).handshake(text)
            assert daemon.configured.failure_policy.fail_request == does_file_count
            for texts in logged:
                daemon.logged(*texts)
            daemon.serves("CreateContainer")


@pytest.mark.parametrize(("on_failure", "code"), [("fail", Code.UNKNOWN), ("ignore", Code.OK)])
def test_with_a_wrong_list_of_plugins_it_runs_no_other_list(node: Machine, on_failure: str, code: Code) -> None:
    """Creates end as with a broken list."""
    node.configure("good")
    place = f"settings.DEFAULT_PATH = {str(node.file({'config': 'conf.json', 'onFailure': on_failure}))!r}"
    default = f"({str(node.conf_json)!r}, *settings.LegacySettings()[1:])"
    daemon = node.spawn(patched(place, f"settings.LegacySettings.__new__.__defaults__ = {default}")).handshake()
    reply = daemon.call(start("c1"))
    said = "legacy.config: has an error: the list of legacy plugins is unknown"
    assert (reply.code, said in reply.message) == (code, code != Code.OK)
    daemon.serves(stop("c1"))
    assert node.runs() == []
