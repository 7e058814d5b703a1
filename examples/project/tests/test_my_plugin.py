"""The plugin under a runtime without containers."""

import pytest
from my_plugin import ANNOTATION, CPUShares

from nri.testing import Node


@pytest.fixture
def node(nri_runtime: Node) -> Node:
    nri_runtime.add(CPUShares(most=1024))
    return nri_runtime


def test_a_container_gets_the_shares_that_its_pod_asks_for(node: Node) -> None:
    created = node.event("CreateContainer", pod={"annotations": {ANNOTATION: "512"}})
    assert created.adjust
    assert created.adjust.linux.resources.cpu.shares.value == 512


def test_other_containers_stay_as_they_are(node: Node) -> None:
    created = node.event("CreateContainer")
    assert created.adjust
    assert not created.adjust.ByteSize()


@pytest.mark.parametrize("wanted", ["many", "1", "1025", "99999999999", ""])
def test_a_container_with_a_wrong_annotation_fails(node: Node, wanted: str) -> None:
    created = node.event("CreateContainer", pod={"annotations": {ANNOTATION: wanted}})
    assert "is no number from 2 to 1024" in created.error
