"""dump under every shell there is: each request lands in a file of its own, byte for byte."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

from .plugins import PATH, REQUESTS, SAMPLES, Shell, execute, sample


def dumped(directory: Path) -> list[str]:
    """What is in a directory, but for what is known of processes: the pid of a sample request may be somebody's."""
    return sorted(path.name for path in directory.iterdir() if path.suffix != ".proc")


def only(directory: Path) -> Path:
    """The one dump in a directory."""
    (path,) = directory.glob("*.json")
    return path


def test_a_request_is_kept_byte_for_byte_under_a_name_that_says_what_it_is(tmp_path: Path, shell: Shell) -> None:
    for path in REQUESTS:
        kept = tmp_path / path.stem
        conf = b'{"conf": {"directory": "%s"},' % bytes(kept)
        request = path.read_bytes().replace(b"{", conf, 1)  # indented, with a newline at the end
        file = kept / f"001-dump-{'-'.join(path.stem.split('-')[:2])}.json"
        assert execute("dump", request, **shell).metadata == {"file": str(file)}
        assert file.read_bytes() == request


def test_numbers_count_on_through_all_the_names_in_a_directory(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "dump2").symlink_to(SAMPLES / "dump")
    for plugin in ("dump", tmp_path / "dump2", "dump"):
        answer = execute(plugin, sample("create-sandbox", directory=str(tmp_path / "kept")), **shell)
        assert answer.result["plugin"] == Path(plugin).name
    names = ("001-dump", "002-dump2", "003-dump")
    assert dumped(tmp_path / "kept") == [f"{name}-create-sandbox.json" for name in names]


def test_numbers_go_on_past_999(tmp_path: Path, shell: Shell) -> None:
    for number in range(1, 1000):
        (tmp_path / f"{number:03}-dump-create-sandbox.json").touch()
    answer = execute("dump", sample("create-sandbox", directory=str(tmp_path)), **shell)
    assert answer.metadata == {"file": f"{tmp_path}/1000-dump-create-sandbox.json"}


def test_the_number_of_a_run_that_was_killed_is_not_used_again(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / ".001").write_text("{")
    answer = execute("dump", sample("create-sandbox", directory=str(tmp_path)), **shell)
    assert answer.metadata == {"file": f"{tmp_path}/002-dump-create-sandbox.json"}
    assert (tmp_path / ".001").read_text() == "{"


def test_no_number_is_used_twice_when_files_were_taken_away(tmp_path: Path, shell: Shell) -> None:
    for number in (2, 3):
        (tmp_path / f"00{number}-dump2-create-sandbox.json").touch()
    answer = execute("dump", sample("create-sandbox", directory=str(tmp_path)), **shell)
    assert answer.metadata == {"file": f"{tmp_path}/004-dump-create-sandbox.json"}


def test_fifty_runs_at_once_lose_nothing_and_share_no_number(tmp_path: Path, shell: Shell) -> None:
    kept = tmp_path / "kept"
    requests = [json.dumps(sample("create-sandbox", directory=str(kept)) | {"mark": mark}) for mark in range(50)]
    command = [*shell.get("shell", ()), str(SAMPLES / "dump"), "invoke"]
    running = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PATH": shell.get("path", PATH)}, text=True
        )
        for _ in requests
    ]
    for process, request in zip(running, requests, strict=True):  # all of them are up before the first may go on
        assert process.stdin
        process.stdin.write(request)
        process.stdin.flush()
    answers = [process.communicate(timeout=60)[0] for process in running]
    assert [path[:3] for path in dumped(kept)] == [f"{number:03}" for number in range(1, 51)]
    files = [json.loads(answer)["metadata"]["file"] for answer in answers]
    assert [Path(file).read_text() for file in files] == requests


def test_a_request_of_a_mebibyte_is_kept_whole(tmp_path: Path, shell: Shell) -> None:
    request = sample("create-container", directory=str(tmp_path))
    request["spec"]["annotations"] |= {f"note-{n}": '{"say": "\\" and \'"}' * 50 for n in range(800)}
    request["spec"]["annotations"]["long"] = "x" * 300_000
    stdin = json.dumps(request).encode()
    assert len(stdin) > 1 << 20
    assert execute("dump", stdin, **shell).code == 0
    assert only(tmp_path).read_bytes() == stdin


HOSTILE = [
    "%s %n %d %%",
    "back\\slash \\n \\\\",
    "quotes \" ' `",
    "$(touch HERE/owned) `touch HERE/owned` $HOME ${IFS}",
    "line\nfeed\r\ttab",
    "end of input\nEND\n",
    "ünïcödé 漢字 \U0001f980 \u2028\u2029",
    '"},"state":"delete","id":"b7ad","sandboxID":"b7ad","conf":{"directory":"/nowhere"}',
    "{[}]",
    "trailing backslash \\",
]


def test_hostile_strings_are_nothing_but_bytes(tmp_path: Path, shell: Shell) -> None:
    for number, text in enumerate(HOSTILE):
        for ascii_only in (True, False):
            kept = tmp_path / f"kept-{number}-{ascii_only}"
            hostile = text.replace("HERE", str(tmp_path))
            request: dict[str, Any] = {"conf": {hostile: hostile, "directory": str(kept), "last": hostile}}
            request |= sample("create-container")
            request["spec"]["annotations"] = request["labels"] = {hostile: hostile}
            stdin = json.dumps(request, ensure_ascii=ascii_only).encode()
            answer = execute("dump", stdin, **shell)
            assert answer.metadata == {"file": f"{kept}/001-dump-create-container.json"}, text
            assert only(kept).read_bytes() == stdin, text
            assert not (tmp_path / "owned").exists()
            assert answer.stderr == ""


def test_bytes_that_are_no_text_are_kept_as_well(tmp_path: Path, shell: Shell) -> None:
    noise = bytes(byte for byte in range(1, 256) if byte not in b'"\\')
    head = json.dumps(sample("create-container", directory=str(tmp_path))).encode()[:-1]
    stdin = head + b', "noise": "' + noise + b'"}\n\n\n'
    execute("dump", stdin, **shell)
    assert only(tmp_path).read_bytes() == stdin


def test_only_the_keys_in_their_own_place_count(tmp_path: Path, shell: Shell) -> None:
    decoys = {"directory": "/nowhere", "state": "pause", "id": "1", "sandboxID": "1", "version": "9", "pid": 1}
    conf = {"first": decoys, "directory": str(tmp_path), "list": [decoys, "directory", "/nowhere"], **decoys}
    conf |= {"directory": str(tmp_path)}
    request = {"results": [decoys], "labels": decoys, "spec": {"annotations": decoys}, "conf": conf}
    request |= {"version": "0.3", "state": "update", "id": "1e1", "sandboxID": "10", "tail": decoys}
    answer = execute("dump", request, **shell)
    assert answer.metadata == {"file": f"{tmp_path}/001-dump-update-container.json"}
    assert answer.result["version"] == "0.3"
    assert [path.name for path in tmp_path.iterdir()] == dumped(tmp_path)  # no .proc: that pid was somebody else's
    assert len(dumped(tmp_path)) == 1


def test_a_request_without_sandbox_is_a_containers(tmp_path: Path, shell: Shell) -> None:
    request = {"conf": {"directory": str(tmp_path)}, "version": "0.1", "state": "create", "id": "redis", "pid": 0}
    execute("dump", request, **shell)
    assert dumped(tmp_path) == ["001-dump-create-container.json"]


def test_without_a_directory_of_its_own_it_takes_the_default(tame_dump: Path, shell: Shell) -> None:
    confs: list[dict[str, Any]] = [{}, {"conf": None}, {"conf": "directory"}, {"conf": ["directory", "/nowhere"]}]
    confs += [{"conf": {"directory": 7}}, {"conf": {"directory": {"directory": "/nowhere"}}}]
    for conf in confs:
        request = conf | sample("create-sandbox")
        request["labels"] |= {"directory": "/nowhere"}
        execute(tame_dump, request, **shell)
    names = [f"00{number}-dump-create-sandbox.json" for number in range(1, len(confs) + 1)]
    assert dumped(tame_dump.parent / "default") == names


def test_what_is_no_request_is_kept_too_and_answered_with_an_error(tame_dump: Path, shell: Shell) -> None:
    answer = execute(tame_dump, b"no request\n", **shell)
    file = tame_dump.parent / "default/001-dump-unknown-container.json"
    assert answer.result["error"] == "the request on stdin is not one: no state"
    assert answer.result["metadata"] == {"file": str(file)}
    assert file.read_bytes() == b"no request\n"


def test_beside_the_request_stands_what_its_process_was(tmp_path: Path, shell: Shell) -> None:
    execute("dump", sample("create-container", directory=str(tmp_path)) | {"pid": os.getpid()}, **shell)
    exe, *cgroups = (tmp_path / "001-dump-create-container.proc").read_text().splitlines()
    assert exe == f"exe {os.readlink('/proc/self/exe')}"
    assert cgroups == Path("/proc/self/cgroup").read_text().splitlines()


def test_a_process_that_is_gone_leaves_no_trace(tmp_path: Path, shell: Shell) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    execute("dump", sample("create-container", directory=str(tmp_path)) | {"pid": gone.pid}, **shell)
    assert [path.name for path in tmp_path.iterdir()] == ["001-dump-create-container.json"]


def test_dumps_are_for_their_owner_only(tmp_path: Path, shell: Shell) -> None:
    execute("dump", sample("create-container", directory=str(tmp_path / "a/b")) | {"pid": os.getpid()}, **shell)
    assert [stat.filemode(path.stat().st_mode) for path in (tmp_path / "a/b", *(tmp_path / "a/b").iterdir())] == [
        "drwx------",
        "-rw-------",
        "-rw-------",
    ]


def test_a_directory_that_takes_no_files_or_cannot_be_written_safely_is_an_error(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "file").touch()
    errors = {f"{tmp_path}/file/dump": f"cannot create {tmp_path}/file/dump", "/proc": "cannot write to /proc"}
    for name in ('quo"te', "back\\slash"):
        errors[f"{tmp_path}/{name}"] = "conf.directory: no quotes or backslashes here, please"
    for directory, error in errors.items():
        answer = execute("dump", sample("create-sandbox", directory=directory), **shell)
        assert (answer.code, answer.result["error"], answer.result["metadata"]) == (1, error, {"file": ""})
    assert dumped(tmp_path) == ["file"]


def test_a_directory_may_have_an_unusual_name(tmp_path: Path, shell: Shell) -> None:
    for name in (" spaces around ", "*", "$(x) `x` 'x' %s", "ö"):
        stdin = json.dumps(sample("create-sandbox", directory=f"{tmp_path}/{name}"), ensure_ascii=False).encode()
        file = tmp_path / name / "001-dump-create-sandbox.json"
        assert execute("dump", stdin, **shell).metadata == {"file": str(file)}
        assert file.exists()


def test_it_works_on_the_path_that_upstreams_adapter_leaves_to_plugins(tmp_path: Path) -> None:
    for number, path in enumerate((":/opt/nri/bin", ""), 1):
        answer = execute("dump", sample("create-sandbox", directory=str(tmp_path)), path=path)
        assert (answer.code, answer.stderr, len(dumped(tmp_path))) == (0, "", number)
