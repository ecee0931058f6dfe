"""What brokers print of their own configuration when they start, as real ones wrote it, without the other keys."""

from pathlib import Path

import pytest

from harness.cluster.printed_configuration import KEYS, printed, read_printed
from harness.host.clock import Anchor
from harness.ports.cluster import NodeId

_DATA = Path(__file__).parent / "data" / "printed_configuration"
_ANCHOR = Anchor(monotonic_ns=0, wall_ns=0)


@pytest.mark.parametrize(("version", "unclean", "minutes"), [("0.10.2.2", "true", "1440"), ("4.3.1", "false", "10080")])
def test_a_broker_tells_the_defaults_of_its_release(version: str, unclean: str, minutes: str) -> None:
    rows = read_printed(NodeId(2), _DATA / f"{version}.log", _ANCHOR)
    said = {row.key: row.value for row in rows}
    assert said.keys() == KEYS
    assert (said["unclean.leader.election.enable"], said["offsets.retention.minutes"]) == (unclean, minutes)
    assert (said["log.cleanup.policy"], said["log.retention.ms"], said["log.retention.hours"]) == ("delete", "", "168")
    assert {(row.scope, row.node, row.source) for row in rows} == {("broker", 2, "start")}


def _lines(*parts: str) -> list[str]:
    """A start, other lines, and prints of min.insync.replicas with that value."""
    lines = []
    for part in parts:
        if part in ("starting", "something else"):
            lines.append(f"2026-11-21 14:00:01,000 INFO {part} (kafka.server.KafkaServer)\n")
        else:
            lines += ["2026-11-21 14:00:00,000 INFO KafkaConfig values: \n", f"\tmin.insync.replicas = {part}\n"]
            lines += ["\tnode.id = 1\n", " (kafka.server.KafkaConfig)\n"]
    return lines


@pytest.mark.parametrize(
    "parts",
    [
        ("1", "starting", *["something else"] * 9, "7", "2", "starting", "something else", "8"),
        ("starting", "something else", "1", "7", *["something else"] * 9, "starting", "2", "something else", "8"),
    ],
    ids=("before-it-starts", "while-it-starts"),
)
def test_each_start_tells_it_anew_and_a_reconfiguration_in_between_tells_nothing(parts: tuple[str, ...]) -> None:
    assert [row.value for row in printed(NodeId(1), _lines(*parts), _ANCHOR)] == ["1", "2"]


def test_a_log_cut_short_and_a_missing_one_tell_nothing(tmp_path: Path) -> None:
    assert not list(printed(NodeId(1), _lines("starting", "1")[:3], _ANCHOR))
    assert not read_printed(NodeId(1), tmp_path / "none", _ANCHOR)
