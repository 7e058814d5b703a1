"""`-root DIR` leaves nothing outside DIR, wherever links inside DIR lead."""

from __future__ import annotations

from pathlib import Path

import pytest

from v010_adapter.host.paths import in_root, walk

from .conftest import FORMS, UNIT, YAML, Installed

PLACES = {(form, str(place)) for form, made in FORMS.items() for name in made for place in Path(name).parents}
PLACES = {(form, place) for form, place in PLACES if place not in (".", "opt", "etc")}


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that is none of the node's: it stands for `/`."""
    return tmp_path_factory.mktemp("outside")


@pytest.mark.parametrize(("form", "place"), sorted(PLACES))
def test_an_absolute_link_leads_below_the_root(
    node: Installed, form: tuple[str, ...], place: str, outside: Path
) -> None:
    link = node.folder / place
    for directory in (link / "system", link):
        if directory.is_dir():
            directory.rmdir()
    node.link(place, str(outside))
    within = node.folder / str(outside)[1:]
    within.mkdir(parents=True)
    assert node("install", *form) == 0, node.err
    assert not list(outside.iterdir())
    assert list(within.iterdir())
    assert node("uninstall") == 0
    assert not [path for path in within.rglob("*") if not path.is_dir()]
    assert link.is_symlink()
    assert within.is_dir(), "the administrator has made it, as the link"


@pytest.mark.parametrize("name", [YAML, UNIT, f"{YAML}.new", f"{UNIT}.new"])
def test_a_file_that_is_a_link_overwrites_nothing(node: Installed, name: str, outside: Path) -> None:
    victim = outside / "victim"
    victim.write_text("precious")
    node.link(name, str(victim))
    for command in (["install", "-external"], ["uninstall"]):
        node(*command)
        assert victim.read_text() == "precious"


LINKS = {"absolute": "/plain", "relative": "plain", "up": "../../../plain", "chain": "/absolute/../up"}
LINKS |= {"nowhere": "/missing/y", "loop": "/loop", "link0": "plain"}
LINKS |= {f"link{number}": f"link{number - 1}" for number in range(1, 41)}
# A path, where it leads if the last link is not followed, and if that is followed.
LEADS = [
    ("/plain/x", "/plain/x", "/plain/x"),
    ("/absolute/x", "/plain/x", "/plain/x"),
    ("/absolute", "/absolute", "/plain"),
    ("/relative/x", "/plain/x", "/plain/x"),
    ("/up/x", "/plain/x", "/plain/x"),
    ("/absolute/../x//./y", "/x/y", "/x/y"),
    ("/../../x", "/x", "/x"),
    ("/chain/x", "/plain/x", "/plain/x"),
    ("/plain/./", "/plain", "/plain"),
    ("/plain/..", "", ""),
    ("/link39/x", "/plain/x", "/plain/x"),  # through as many links as the kernel follows
    ("/nowhere", "/nowhere", "/missing/y"),
    ("/nowhere/x", "/missing/y/x", "/missing/y/x"),
]


def test_a_path_below_a_root_leads_where_a_chroot_would_lead(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    for name, target in LINKS.items():
        (tmp_path / name).symlink_to(target)
    for path, unfollowed, followed in LEADS:
        assert in_root(str(tmp_path), path, follow=False) == f"{tmp_path}{unfollowed}"
        assert in_root(f"{tmp_path}/", path) == f"{tmp_path}{followed}"
        assert in_root("/", path) == path
    assert in_root(str(tmp_path), "relative") == "relative"
    assert next(walk("/usr"))[0] == "/"
    for path in ("/loop/x", "/link40/x"):
        with pytest.raises(OSError, match="Too many levels"):
            in_root(str(tmp_path), path)
