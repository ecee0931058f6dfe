"""The probe's result agrees with the engine, and it leaves nothing behind."""

import os
from pathlib import Path

from harness.cluster.docker.capabilities import Capabilities, probe
from harness.cluster.docker.engine import Engine
from harness.cluster.docker.labels import OWNER, labels_of, owner


def test_the_probe_says_what_works_and_leaves_nothing_behind(engine: Engine, infra_image: str, run: Path) -> None:
    seen = probe(engine, infra_image, labels_of(run))
    assert seen.packet_rules is None
    assert seen.entry == "exec" or os.geteuid() == 0
    ours = {"label": f"{OWNER}={owner()}"}
    assert not engine.client.containers.list(all=True, filters=ours)
    assert not engine.client.volumes.list(filters=ours)


def test_each_capability_is_reported_in_words(capabilities: Capabilities) -> None:
    reported = capabilities.explained()
    assert reported["packet rules"] == "yes"
    assert reported["delay, loss, duplication, reordering"] == (capabilities.netem or "yes")
    assert capabilities.netem is None or "has no netem" in capabilities.netem
