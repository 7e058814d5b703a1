"""A plugin that keeps all rules of the contract, and what makes it break one of them."""

from __future__ import annotations

from nri.testing import FLAVOURS, Flavour
from nri.testing.contract import Launched, Report, Verdict, judge
from tests.rig.brief import CI
from tests.rig.embedded import Plugins, patient

NEWEST = "containerd/2.4.2"
RUNTIMES = list(FLAVOURS) if CI else ["cri-o/1.34.0"]
"""Those under which all rules are tried: a person waits for one, which has the rules of CRI-O, too."""
WITH_0_11, WITH_CRIO = "containerd/2.2.1", "cri-o/1.36.3"

SOUND = """
joined, seen, stopped = set(), set(), set()
def told(request):
    return events.CALLS[request.method].request.FromString(request.payload)
def die():
    os._exit(3)
def answer(plugin, request):
    method, message = request.method, told(request) if request.method in events.CALLS else None
    if method == "StateChange":
        method = events.BY_EVENT[message.event].method
    container, pod = getattr(message, "container", None), getattr(message, "pod", None)
    joined.add(method)
    if pod and not {{"Configure", "Synchronize"}} <= joined:
        die()
{breaks}
    if method == "Configure":
        return api.ConfigureResponse(events=0x7FF).SerializeToString()
    if method == "Synchronize":
        return api.SynchronizeResponse(more=message.more).SerializeToString()
    if message is None:
        raise CallError(12, "no such method")
    return b""
{run}
"""
"""A plugin that keeps all rules, but for {breaks}."""
RUN = "raw.run(answer)"

TWICE = 'api.ContainerAdjustment(env=[api.KeyValue(key="A", value="1")] * 2)'
SYSCTL = 'api.ContainerAdjustment(linux=api.LinuxContainerAdjustment(sysctl={"kernel.shm_rmid_forced": "1"}))'
ADJUST = 'if method == "CreateContainer": return api.CreateContainerResponse(adjust={}).SerializeToString()'
WANTED = 'api.UpdateContainersRequest(update=[api.ContainerUpdate(container_id="gone")]).SerializeToString()'

BROKEN = {
    "takes-configuration": 'if method == "Configure": raise CallError(2, "no")',
    "known-events": 'if method == "Configure": return api.ConfigureResponse(events=0x4000).SerializeToString()',
    "synchronizes": 'if method == "Synchronize" and not (message.more or message.pods): raise CallError(2, "no")',
    "synchronizes-in-parts": 'if method == "Synchronize": return b""',
    "answers-events": 'if method == "StartContainer": die()',
    "unknown-call": 'if message is None: raise CallError(2, "what?")',
    "unknown-fields": 'if request.payload.count(b"\\xc2\\x3e\\x03new") == 3: raise CallError(13, "what?")',
    "sparse-messages": """
        if container and container.name and container.HasField("linux") and not container.linux.HasField("resources"):
            die()""",
    "extreme-values": """
        if method == "UpdateContainer" and message.linux_resources.memory.limit.value == 2**63 - 1: die()""",
    "large-message": 'if method == "CreateContainer" and len(request.payload) > 3 << 20: die()',
    "failed-create": """
        if method == "StartContainer": seen.add(container.id)
        if method == "RemoveContainer" and pod.uid and container.id != "unknown" and container.id not in seen: die()""",
    "stop-after-pod": """
        if method == "StopPodSandbox": stopped.add(pod.id)
        if method == "StopContainer" and pod.id in stopped and pod.HasField("linux") and not pod.name: die()""",
    "repeated-stop": """
        if method == "StopPodSandbox":
            if pod.id in stopped: die()
            stopped.add(pod.id)""",
    "unknown-container": """
        if method == "CreateContainer": seen.add(container.id)
        if method == "RemoveContainer" and container.id not in seen: die()""",
    "interleaved-containers": """
        if method in ("RunPodSandbox", "StartContainer"): seen.add(container.id if container else pod.id)
        if len(seen) > 2: stopped.add(pod.id)
        if method == "StopContainer": seen.discard(container.id)
        if method == "RemovePodSandbox" and pod.id in stopped: die()""",
    "merges": ADJUST.format(TWICE),
    "crashes-no-runtime": ADJUST.format(SYSCTL),
    "changes-are-applied": ADJUST.format(
        "api.ContainerAdjustment(linux=api.LinuxContainerAdjustment(resources="
        "api.LinuxResources(memory=api.LinuxMemory(swap=api.OptionalInt64(value=5)))))"
    ),
    "lets-pods-stop": 'if method == "StopPodSandbox": raise CallError(2, "no")',
    "refused-updates": f"""
        if any(getattr(one, "code", 0) for one in plugin.heard): die()
        if method == "StartContainer": plugin.ask("UpdateContainers", {WANTED})""",
}
"""What breaks a rule, and no other."""
UNDER = {"crashes-no-runtime": WITH_0_11, "repeated-stop": WITH_CRIO, "lets-pods-stop": WITH_CRIO}


def sound(breaks: str = "", run: str = RUN) -> str:
    lines = breaks.strip("\n").splitlines() or ["pass"]
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    return SOUND.format(breaks="\n".join(f"    {line[indent:]}" for line in lines), run=run)


def judged(plugins: Plugins, source: str, flavour: Flavour | None = None) -> Report:
    return judge(Launched(plugins.file(plugins.write("10-a", source))), flavour or patient())


def named(report: Report) -> list[str]:
    """Returns the rules that fail."""
    return [verdict.rule.name for verdict in report.failures]


def of(report: Report, rule: str) -> Verdict:
    return next(verdict for verdict in report.verdicts if verdict.rule.name == rule)
