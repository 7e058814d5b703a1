"""Which NRI a runtime has, from what it tells."""

from __future__ import annotations

from adapter.nri import api, runtimes

SAID = [
    (("containerd", "2.4.2+unknown", "v0.12.3"), (0, 12, 3)),
    (("containerd", "v2.3.4", "v0.12.0"), (0, 12, 0)),
    (("cri-o", "1.40.0", "v0.13.0-rc.1"), (0, 13, 0)),
    (("containerd", "v2.2.1", ""), (0, 11, 0)),
    (("containerd", "2.10.0", "(devel)"), (0, 11, 0)),
    (("containerd", "v2.1.5", ""), (0, 8, 0)),
    (("containerd", "1.7.35~ds1", ""), (0, 8, 0)),
    (("containerd", "", ""), (0, 8, 0)),
    (("cri-o", "1.34.0", ""), (0, 8, 0)),
    (("cri-o", "1.36.3", ""), (0, 11, 0)),
    (("somebody", "9.9.9", ""), (0, 8, 0)),
]


def test_a_runtimes_nri_is_what_it_tells_or_what_is_known_of_it() -> None:
    for (name, version, nri), known in SAID:
        request = api.ConfigureRequest(runtime_name=name, runtime_version=version, NRI_version=nri)
        assert runtimes.of(request) == (name, version, known)


def test_the_name_of_a_runtime_may_be_written_with_capitals() -> None:
    runtime = runtimes.of(api.ConfigureRequest(runtime_name="Docker", runtime_version="29.0.0"))
    assert (runtime.name, runtime.habits) == ("docker", runtimes.Runtime("docker").habits)
    assert runtime.habits != runtimes.Runtime("other").habits == runtimes.Habits()
