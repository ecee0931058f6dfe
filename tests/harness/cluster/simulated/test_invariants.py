"""Planted flaws break the invariants that watch a simulated run, and the sound reference breaks none."""

from pathlib import Path
from typing import Any

import pytest

from harness import compose
from harness.cluster.simulated import invariants
from harness.compose import recording
from harness.history.run_folder import RunFolder
from harness.preflight.looking import ready
from harness.worlds.simulated import simulate

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def _simulated(tmp_path: Path, scenario: str, *overrides: str, seed: int = 3) -> dict[str, Any]:
    """Its run.json."""
    found = ready(scenario, overrides=["cluster.world=simulated", *overrides], checks=False)
    _, begun = compose._begun(found, runs=tmp_path, seed=seed, command=[])
    folder = RunFolder(begun.path.resolve())
    simulate(
        folder,
        make_run=lambda scenario, world, interrupt: recording(scenario, folder, world, interrupt, lambda _: None),
        hear=lambda stop: None,
    )
    run: dict[str, Any] = folder.run
    assert run["error"] is None
    return run


@pytest.mark.parametrize(
    ("scenario", "flaw", "invariant"),
    [
        ("leader-crash-acks-all", "acknowledge-before-replication", invariants.ACKNOWLEDGED),
        ("leader-crash-acks-all", "truncate-to-high-watermark-on-follow", invariants.COMMITTED),
        ("leader-crash-acks-all", "commit-by-majority", invariants.COMMITTED),
    ],
)
def test_a_planted_flaw_breaks_the_invariant_that_it_is_against(
    tmp_path: Path, scenario: str, flaw: str, invariant: str
) -> None:
    run = _simulated(tmp_path, scenario, f'cluster.flaws=["{flaw}"]')

    broken = run["broken_invariant"]
    assert (broken["invariant"], broken["topic"]) == (invariant, "orders")
    assert broken["seen"] < broken["wanted"]
    assert broken["events"][-1]["t_ns"] <= broken["at_ns"]
    assert [phase["name"] for phase in run["phases"]][-1] == "seal", "whoever plants a flaw sees the whole run"


@pytest.mark.parametrize(
    "scenario",
    ["leader-crash-acks-all", "disk-loss-all-in-sync", "unclean-election", "topic-anew", "transactions-leader-crash"],
)
def test_the_sound_reference_breaks_none(tmp_path: Path, scenario: str) -> None:
    assert "broken_invariant" not in _simulated(tmp_path, scenario)


def test_a_broken_invariant_ends_what_is_done_to_the_cluster_and_all_else_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_broken_at_once(self: invariants.Invariants, *seen: Any) -> None:
        node, key, partition, known = seen
        if key.topic == "orders" and partition.high_watermark > 0:
            self._breaks(invariants.MONOTONIC, node, key, partition, known, wanted=1, seen=0)

    monkeypatch.setattr(invariants.Invariants, "_look_at", is_broken_at_once)
    run = _simulated(tmp_path, "no-faults", "workload.duration=3600 s")

    assert run["broken_invariant"]["invariant"] == invariants.MONOTONIC
    assert (run["status"], run["inconclusive"]) == ("complete", [])
    acted, healed = (next(each["t"] for each in run["phases"] if each["name"] == name) for name in ("act", "heal"))
    assert healed - acted < 60e9, "of 3600 seconds"
    assert RunFolder(next(tmp_path.glob("simulated-*"))).table("records").num_rows > 0
