"""Expectations that one named broker answers: what is asked, what counts as met, and what the journal keeps of it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.controller.fault_world import FaultyCluster, Play, player


@pytest.fixture
async def play(tmp_path: Path) -> AsyncIterator[Play]:
    async with player(tmp_path) as play:
        yield play


@pytest.mark.parametrize(
    ("body", "outcome", "seen"),
    [
        ({"fetch": 1}, "ok", "1 values (b)"),
        ({"fetch": 0, "values": "a, b"}, "ok", "2 values (a, b)"),
        ({"fetch": 2, "values": ""}, "ok", "no value"),
        ({"fetch": 0, "values": "b"}, "failed", "2 values (a, b)"),
        ({"fetch": 0, "broker": 2, "version": 10, "error": 6}, "ok", "error 6"),
        ({"fetch": 0, "broker": 2}, "failed", "error 6"),
        ({"epoch_end": {"0": 10, "1": 20}}, "ok", "epoch 0 ends at 10, epoch 1 ends at 20"),
        ({"epoch_end": {"0": 11}}, "failed", "epoch 0 ends at 10"),
        ({"epoch_end": {"0": -1}, "broker": 3, "error": 6}, "ok", "error 6"),
        ({"config_default": {"min.insync.replicas": 1, "nonsense": ""}}, "ok", "min.insync.replicas=1, nonsense=None"),
        ({"config_default": {"min.insync.replicas": 2}}, "failed", "min.insync.replicas=1"),
        ({"configure": {"auto.leader.rebalance.enable": True}, "broker": 2, "error": 42}, "ok", "error 42"),
        ({"create_topic": "wide", "replication_factor": 4, "error": 38}, "ok", "error 38"),
        ({"create_topic": "wide"}, "failed", "error 38"),
        ({"produce": "x, y", "to": 1}, "ok", "offset 7"),
        ({"produce": "x", "to": 2, "acks": "1", "error": 6}, "ok", "error 6"),
        ({"produce": "x", "to": 2}, "failed", "error 6"),
    ],
)
async def test_one_broker_is_asked_and_its_answer_is_reported(
    play: Play, body: dict[str, Any], outcome: str, seen: str
) -> None:
    step = {"expect": body, "within": "10 ms"}
    _, world = await play(step, before=lambda cluster: cluster.set_log("a", "b"))

    assert [(row["outcome"], row["seen_text"]) for row in world.rows("steps")] == [(outcome, seen)]


@pytest.mark.parametrize(
    ("failure", "closed", "outcome", "seen"),
    [
        (ConnectionResetError("gone"), True, "ok", "the broker closed the connection"),
        (TimeoutError(), True, "failed", "no answer"),
        (TimeoutError(), False, "ok", "no answer"),
    ],
)
async def test_with_acks_0_a_closed_connection_is_the_answer(
    play: Play, failure: OSError | TimeoutError, closed: bool, outcome: str, seen: str
) -> None:
    def failing(cluster: FaultyCluster) -> None:
        cluster.fails = failure

    _, world = await play({"expect": {"produce": "x", "to": 2, "acks": "0", "closed": closed}}, before=failing)

    assert [(row["outcome"], row["seen_text"]) for row in world.rows("steps")] == [(outcome, seen)]


async def test_what_was_sent_by_a_bare_request_is_in_the_journal_with_its_outcome(play: Play) -> None:
    _, world = await play(
        {"expect": {"produce": "k0", "to": 1}}, {"expect": {"produce": "k1", "to": 2, "acks": "1", "error": 6}}
    )

    journals = [path.read_text() for path in sorted(world.folder.glob("probe-*.jsonl"))]
    assert len(journals) == 2
    assert ["[0],[7]" in journals[0], '[1],[null],["error 6"]' in journals[1]] == [True, True], "status, offset, error"


async def test_a_broker_that_does_not_answer_is_asked_until_time_is_up(play: Play) -> None:
    def failing(cluster: FaultyCluster) -> None:
        cluster.fails = TimeoutError()

    _, world = await play({"expect": {"fetch": 0}, "within": "250 ms"}, before=failing)

    assert world.outcomes() == ["failed"]
    assert world.rows("steps")[0]["seen_text"] == "no answer: TimeoutError"
    assert len(world.cluster.deeds) > 1
