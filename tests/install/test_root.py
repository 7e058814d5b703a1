"""`-root DIR` leaves nothing outside DIR, wherever links inside DIR lead."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapter.host.paths import in_root

from .conftest import LINK, UNIT, WANTED, YAML, Node

FORMS = {(): [LINK, YAML], ("-external",): [UNIT, WANTED, YAML]}
PLACES = sorted({(form, str(place)) for form, made in FORMS.items() for name in made for place in Path(name).parents})


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that is none of the node's: it stands for `/`."""
    return tmp_path_factory.mktemp("outside")


@pytest.mark.parametrize(("form", "place"), [pair for pair in PLACES if pair[1] not in (".", "opt", "etc")])
def test_a_directory_that_is_an_absolute_link_is_one_of_the_node(
    node: Node, form: tuple[str, ...], place: str, outside: Path
) -> None:
    link = node.root / place
    if link.is_dir():
        for name in ("multi-user.target.wants", "system"):
            if (link / name).is_dir():
                (link / name).rmdir()
        link.rmdir()
    node.link(place, str(outside / "there"))
    (outside / "there").mkdir()
    within = node.root / str(outside / "there")[1:]
    within.mkdir(parents=True)
    assert node("install", *form) == 0, node.err
    assert not list((outside / "there").iterdir())
    assert list(within.iterdir())
    assert node("uninstall") == 0
    assert not [path for path in within.rglob("*") if not path.is_dir()]
    assert link.is_symlink()


@pytest.mark.parametrize("name", [YAML, UNIT])
@pytest.mark.parametrize("suffix", ["", ".new"])
def test_a_file_that_is_a_link_overwrites_nothing(node: Node, name: str, suffix: str, outside: Path) -> None:
    victim = outside / "victim"
    victim.write_text("precious")
    node.link(name + suffix, str(victim))
    node("install", "-external")
    assert victim.read_text() == "precious"
    node("uninstall")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize(
    ("path", "expected", "followed"),
    [
        ("/plain/x", "/plain/x", None),
        ("/absolute/x", "/plain/x", None),
        ("/absolute", "/absolute", "/plain"),
        ("/relative/x", "/plain/x", None),
        ("/up/x", "/plain/x", None),
        ("/absolute/../x//./y", "/x/y", None),
        ("/../../x", "/x", None),
        ("/chain/x", "/plain/x", None),
        ("/nowhere", "/nowhere", "/missing/y"),
        ("/nowhere/x", "/missing/y/x", None),
        ("relative", None, None),
    ],
)
def test_where_a_path_below_a_root_leads(tmp_path: Path, path: str, expected: str | None, followed: str | None) -> None:
    (tmp_path / "plain").mkdir()
    links = {"absolute": "/plain", "relative": "plain", "up": "../../../plain", "chain": "/absolute/../up"}
    for name, target in {**links, "nowhere": "/missing/y", "loop": "/loop"}.items():
        (tmp_path / name).symlink_to(target)
    place = path if expected is None else f"{tmp_path}{expected}"
    assert in_root(str(tmp_path), path, follow=False) == place
    assert in_root(f"{tmp_path}/", path) == (f"{tmp_path}{followed}" if followed else place)
    assert in_root("/", path) == path
    with pytest.raises(OSError, match="Too many levels"):
        in_root(str(tmp_path), "/loop/x")
