"""`install` and `uninstall`: both forms, repeated, undone, and what is in the way."""

from __future__ import annotations

import os

import pytest

from v010_adapter import settings
from v010_adapter.cli.install import example
from v010_adapter.legacy import config
from v010_adapter.settings import Settings

from ..rig.waiting import limit
from .conftest import EXTERNAL, FORMS, LINK, LIST, PROGRAM, SHARED, UNIT, WANTED, YAML, Installed

Form = tuple[str, ...]


def shown() -> str:
    """The configuration, as a dry run shows it."""
    return "".join(f"    {line}".rstrip() + "\n" for line in example.text(own_list=True).splitlines())


def test_a_dry_run_shows_every_line_and_changes_nothing(node: Installed, form: Form) -> None:
    before = node.files()
    assert node.results(*form, "-dry-run") == dict.fromkeys(FORMS[form], ("made", True))
    assert node("install", *form, "-dry-run") == 0
    assert node.files() == before
    assert shown() in node.out
    for name in FORMS[form]:
        assert f"would make    /{name}\n" in node.out
    assert ("WatchdogSec=30" in node.out) == bool(form)
    assert (f"-> {PROGRAM}" in node.out) == (not form)


def test_it_is_made_once_and_undone_completely(node: Installed, form: Form) -> None:
    before = node.files()
    assert node("install", *form) == 0
    assert shown() not in node.out
    after = node.files()
    directories = {name for name in after.keys() - before.keys() if (node.folder / name).is_dir()}
    assert {after[name][0] & 0o777 for name in directories} == {0o755}
    made = after.keys() - before.keys() - directories
    assert made == {*FORMS[form]}
    assert (node.folder / YAML).read_text() == example.text(own_list=True)
    if form:
        assert os.readlink(node.folder / WANTED) == f"/{UNIT}"
        assert f'\nExecStart="{PROGRAM}" run -idx 00 -name v010-adapter\n' in (node.folder / UNIT).read_text()
    else:
        assert os.readlink(node.folder / LINK) == PROGRAM
    assert {after[name][0] & 0o777 for name in made if not (node.folder / name).is_symlink()} == {0o644}
    assert node.results(*form) == dict.fromkeys(FORMS[form], ("is there", False))
    assert node("install", *form) == 0
    assert node.out.count("is there ") == len(made)
    assert node("install", *form, "-dry-run") == 0
    assert shown() not in node.out
    assert node("uninstall", "-dry-run") == 0
    assert node.files() == after
    assert node.out.count("would remove ") == len(made)
    assert node("uninstall", "-dry-run", "-o", "json") == 0
    told = node.told()
    assert {thing["path"][1:]: (thing["result"], thing["changed"]) for thing in told["things"]} == dict.fromkeys(
        FORMS[form], ("removed", True)
    )
    ends = ["systemctl stop v010-adapter", "systemctl daemon-reload"] if form else ["systemctl restart containerd"]
    assert (told["changed"], told["next"]) == (True, ends)
    assert node("uninstall") == 0
    assert node.files() == before
    assert node("uninstall") == 0
    assert node.out == "nothing to remove\n"


def test_a_configuration_with_a_key_or_of_another_is_the_administrators(node: Installed) -> None:
    for edited in (example.text().replace("#trust: strict", "trust: off"), "# mine\n", "legacy:\n  config: /x\n"):
        node("install")
        node.write(YAML, edited)
        assert node.results()[YAML] == ("kept", False)
        node("uninstall")
        assert f"kept          /{YAML}: `install` has not made it, or it was changed\n" in node.out
        assert (node.folder / YAML).read_text() == edited


def test_what_another_version_has_made_is_replaced_and_removed(node: Installed) -> None:
    node("install", "-external")
    unit, config = (node.folder / UNIT).read_text(), (node.folder / YAML).read_text()
    node.write(UNIT, unit.replace("WatchdogSec=30\n", ""))
    node.write(YAML, config.replace("#trust", "#confidence"))
    before = os.umask(0o077)
    try:
        assert node("install", "-external") == 0
    finally:
        os.umask(before)
    assert [(node.folder / name).stat().st_mode & 0o777 for name in (UNIT, YAML)] == [0o644] * 2
    assert ((node.folder / UNIT).read_text(), (node.folder / YAML).read_text()) == (unit, config)
    node("uninstall")
    link = node.link(LINK, "/opt/old/bin/v010-adapter")
    assert node("install") == 0
    assert not node.err
    assert os.readlink(link) == PROGRAM
    link.unlink()
    node.link(LINK, "/opt/old/bin/v010-adapter")
    node("uninstall")
    assert not os.path.lexists(link)


# ---- the list of legacy plugins


def test_a_node_without_a_list_gets_one_of_the_adapters_own_and_keeps_it(node: Installed, form: Form) -> None:
    node("install", *form)
    assert "The list of legacy plugins is /etc/nri/v010-adapter.json: containerd 2.0 to 2.4 run" in node.out
    own, errors = settings.read(str(node.folder / YAML))
    legacy = Settings().legacy._replace(config=f"/{LIST}")
    assert (errors, own) == ([], Settings()._replace(legacy=legacy, file=own.file))
    assert config.parse((node.folder / LIST).read_bytes(), "").entries == ()
    filled = node.write(LIST, '{"version": "0.1", "plugins": [{"type": "konfine"}]}').read_text()
    node.write(SHARED, "{}")  # by another installer
    assert node.results(*form)[LIST] == ("kept", False)
    assert node.results(*form)[YAML] == ("is there", False)
    node("uninstall")
    assert f"kept          /{LIST}: `install` has not made it" in node.out
    assert (node.folder / LIST).read_text() == filled
    assert not (node.folder / YAML).exists()


@pytest.mark.parametrize("other", [SHARED, "etc/nri/conf.d/v010-adapter.conf", "etc/nri/conf.d/00-v010-adapter.conf"])
def test_where_there_is_a_list_or_a_configuration_the_list_is_the_built_in_one(node: Installed, other: str) -> None:
    node.write(other, '{"plugins": []}')
    node.link("opt/nri/plugins/00-v010-adapter", PROGRAM)
    node("install")
    assert (node.folder / YAML).read_text() == example.text()
    assert not (node.folder / LIST).exists()
    (node.folder / other).unlink()
    for text, result in ((example.text(), "is there"), (example.text().replace("#trust", "#confidence"), "replaced")):
        node.write(YAML, text)
        assert node.results()[YAML] == (result, result == "replaced")
        assert (node.folder / YAML).read_text() == example.text()
        assert not (node.folder / LIST).exists()


def test_a_list_that_is_a_link_to_nowhere_counts(node: Installed) -> None:
    node.link(SHARED, "/nowhere")
    node("install")
    assert not (node.folder / LIST).exists()


# ---- the index


def test_an_index_is_kept_until_another_is_asked_for(
    node: Installed, form: Form, capsys: pytest.CaptureFixture[str]
) -> None:
    def installed() -> str:
        if form:
            return (node.folder / UNIT).read_text().partition(" -idx ")[2][:2]
        [link] = (node.folder / LINK).parent.iterdir()
        assert os.readlink(link) == PROGRAM
        return link.name.removesuffix("-v010-adapter")

    before = node.files()
    node("install", *form, "-idx", "90")
    assert installed() == "90"
    assert not any(changed for _, changed in node.results(*form).values())
    assert ("removed", True) in node.results(*form, "-idx", "10", "-dry-run").values() or form
    assert installed() == "90"
    assert any(changed for _, changed in node.results(*form, "-idx", "10").values())
    assert installed() == "10"
    assert node("uninstall") == 0
    assert node.files() == before
    for index in ("7", "007", "x0", ""):
        with pytest.raises(SystemExit, match="2"):
            node("install", "-idx", index)
        assert f"argument -idx/--idx: {index!r} is not two digits; " in capsys.readouterr().err


def test_a_plugin_of_the_same_name_that_is_not_this_program_is_in_the_way_and_stays(node: Installed) -> None:
    """Upstream's v010-adapter is a binary."""
    node.write("opt/upstream/v010-adapter", "\x7fELF")
    link = node.link("opt/nri/plugins/10-v010-adapter", "/opt/upstream/v010-adapter")
    assert {*node.results()} == {LIST, YAML, LINK}
    assert "run twice" in node.err
    assert node("install", "-idx", "10") == 1
    assert "10-v010-adapter exists, and is not from an installation of the adapter" in node.err
    node("uninstall")
    assert os.readlink(link) == "/opt/upstream/v010-adapter"


# ---- what is in the way


@pytest.mark.parametrize("target", ["", "/opt/mine", "/opt/upstream/v010-adapter"], ids=["file", "link", "upstream"])
@pytest.mark.parametrize(("name", "form"), [(LINK, ()), (UNIT, EXTERNAL), (WANTED, EXTERNAL)])
def test_what_somebody_else_has_made_is_in_the_way_and_stays(
    node: Installed, name: str, form: Form, target: str
) -> None:
    node.write(target[1:] or name, "\x7fELF")
    if target:
        node.link(name, target)
    before = node.files()
    assert node("install", *form) == 1
    assert node.err == f"v010-adapter: /{name} exists, and is not from an installation of the adapter\n"
    assert node("uninstall") == 0
    assert node.files() == before


def test_a_configuration_that_is_no_file_stays_and_is_not_waited_for(node: Installed) -> None:
    path = node.folder / YAML
    path.parent.mkdir(parents=True)
    for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("/nowhere", path)):
        make(path)
        before = path.lstat()
        with limit("install does not end"):
            node("install")
        assert f"kept          /{YAML}" in node.out
        assert path.lstat().st_ino == before.st_ino
        path.rmdir() if path.is_dir() else path.unlink()


def test_one_form_is_in_the_way_of_the_other(node: Installed, form: Form) -> None:
    other = EXTERNAL if not form else ()
    node("install", *other)
    before = node.files()
    assert node("install", *form, "-o", "json") == 1
    told = node.told()
    assert (told["changed"], told["things"]) == (False, [])
    twice = "the adapter would run twice; run `v010-adapter uninstall` first"
    assert [twice in problem for problem in told["problems"]] == [True] * (len(FORMS[other]) - 2)
    assert node.err.count(twice) == len(told["problems"])
    assert node.files() == before


def test_without_the_program_nothing_is_installed(node: Installed, form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/nowhere/bin/v010-adapter"])
    before = node.files()
    assert node("install", *form) == 1
    missing = f"{node.folder}/nowhere/bin/v010-adapter does not exist"
    assert node.err == f"v010-adapter: {missing}: install the command below {node.folder} first\n"
    assert node.files() == before
    monkeypatch.setattr("sys.argv", ["adapter/__main__.py"])
    assert node("install") == 2
    assert "run the installed command, by its path: .../bin/v010-adapter" in node.err
