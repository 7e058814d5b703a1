"""The pod's annotations that a container gets with the hooks that were chosen by them."""

from __future__ import annotations

from math import inf
from pathlib import Path

from nri import api
from nri.deferred import in_turn
from nri.runtimes import Runtime
from v010_adapter.events.hooks import HookBridge
from v010_adapter.hooks.match import Matcher, NamedHook
from v010_adapter.hooks.model import Hook, When
from v010_adapter.programs.process import Runner
from v010_adapter.settings import HooksSettings

from .hookdirs import Watching, text

DEVICES = '{"annotations": {"^org[.]qm[.]": "^true$"}}'
OF_POD = {"org.qm.kvm": "true", "org.qm.tty": "false", "org.qm.set": "true", "other": "true"}


def adjusted(directory: Path, *, container: dict[str, str], before: dict[str, str], setting: bool) -> dict[str, str]:
    """The annotations of the answer for a container with these annotations, and `before` from plugins."""
    loop = Watching()
    hooks = HookBridge(loop, HooksSettings(directories=(str(directory),), pod_annotations=setting), Runner(loop))
    hooks.start(Runtime(nri=(0, 12, 5)))
    loop.until_in_force(hooks)
    response = api.CreateContainerResponse(adjust=api.ContainerAdjustment(annotations=before))
    pod = api.PodSandbox(annotations=OF_POD)
    request = api.CreateContainerRequest(pod=pod, container=api.Container(annotations=container))
    assert in_turn(hooks.on_creation(request, response, inf)).done
    return dict(response.adjust.annotations)


def test_with_the_setting_a_container_gets_those_that_its_hooks_match_and_that_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(text(when=DEVICES))
    (tmp_path / "b.json").write_bytes(text(when='{"annotations": {"other": "nobody"}}'))
    assert adjusted(tmp_path, container={}, before={}, setting=False) == {}
    for setting, added in ((True, {"org.qm.kvm": "true"}), (False, {})):
        assert adjusted(tmp_path, container={"org.qm.set": "true"}, before={}, setting=setting) == added
    for before in ({"org.qm.set": "plugin"}, {"-org.qm.set": ""}):
        added = {"org.qm.kvm": "true", **before}
        assert adjusted(tmp_path, container={}, before=before, setting=True) == added, "a plugin has decided on it"


def test_a_pair_of_patterns_matches_one_annotation() -> None:
    hook = Hook("/x", (), (), None, When(annotations=(("a", "1"), ("b", "2"))), ("poststop",))
    chosen = [NamedHook("x", "x", hook)]
    matcher = Matcher(chosen)
    assert matcher.deciding(chosen, {"a": "2", "b": "1", "ab": "2"}) == {"ab": "2"}
    assert matcher.deciding([], {"a": "1"}) == {}
