"""Kafka's log lines, as six versions really wrote them while leaders were killed, paused and cut short.

The files below data/kafka_log_lines hold what brokers 1 and 2 of a cluster of two said, without the lines that say
nothing of interest. `elections`: records that only leader 1 has, 1 killed, 2 elected, 1 back; 1 out of the ISR and
back; 1 killed, more records, 2 killed, 1 elected uncleanly, 2 back; leader 1 paused until 2 is elected, and resumed;
2 killed, its segment torn, 2 back; 2 stopped cleanly and started. `repair`: a torn segment with indexes. `retention`: a
follower back when the leader has deleted all that it had. `trimming`: a client asks a leader to delete records.
`fenced`: of a drawn run; broker 1 comes back to leader 3 while the controller still has it fenced.
"""

import re
from pathlib import Path

import pytest

from harness.cluster.kafka_log_lines import events_of, read_log_lines
from harness.cluster.kafka_log_patterns import LINE, PATTERNS, matches
from harness.host.clock import Anchor
from harness.ports.cluster import BrokerEvent, NodeId

_DATA = Path(__file__).parent / "data" / "kafka_log_lines"
_ANCHOR = Anchor(monotonic_ns=0, wall_ns=0)
_MODE = {"4.3.1": "kraft"}
# Words that no run kept below data provoked; they are strings of that version's jar.
_FROM_JARS = {
    "1.1.1": (
        "[Partition t-0 broker=1] Cached zkVersion [9] not equal to that in zookeeper, skip updating ISR",
        "[ReplicaFetcher replicaId=2, leaderId=1, fetcherId=0] Reset fetch offset for partition t-0 from 8 to current "
        "leader's latest offset 5",
    ),
    "2.8.2": ("[KafkaServer id=1] Fatal error during KafkaServer startup. Prepare to shutdown",),
    "0.10.2.2": ("Truncating t-0 to 9 has no effect as the largest offset in the log is 7.",),
}
VERSIONS = ("0.9.0.1", "0.10.2.2", "1.1.1", "2.8.2", "3.9.1", "4.3.1")


def _events(version: str, broker: int, what: str = "elections") -> list[BrokerEvent]:
    path = _DATA / f"{version}-{what}-{_MODE.get(version, 'zk')}-{broker}.log"
    assert path.is_file(), path
    return read_log_lines(NodeId(broker), path, _ANCHOR)


def _said(*messages: str) -> list[BrokerEvent]:
    lines = [f"2026-11-21 14:00:00,{number:03} INFO {message} (kafka.X)\n" for number, message in enumerate(messages)]
    return events_of(NodeId(1), lines, _ANCHOR)


def _story(events: list[BrokerEvent], *names: str) -> list[tuple[object, ...]]:
    return [(e.event, e.epoch, e.from_offset, e.to_offset) for e in events if e.event in names]


# ---- the table ------------------------------------------------------------------------------------------------------


def _seen() -> list[str]:
    lines = [line for path in sorted(_DATA.glob("*.log")) for line in path.read_text().splitlines()]
    found = [LINE.fullmatch(line) for line in lines]
    assert all(found), "a line of the data is no log line"
    return [match[3] for match in found if match]


def test_every_spelling_of_the_table_was_seen() -> None:
    messages = [*_seen(), *(message for said in _FROM_JARS.values() for message in said)]
    unseen = [
        (kind, spelling)
        for kind, spellings in PATTERNS.items()
        for spelling in spellings
        if not any(re.search(spelling, message) for message in messages)
    ]
    assert unseen == []


def test_every_line_of_the_data_says_something() -> None:
    assert [message for message in _seen() if not list(matches(message))] == []


# ---- versions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "first", "zombie", "unclean"),
    [
        ("0.9.0.1", (1, 5, 3), (4, None, 8), (3, 8, 7)),
        ("0.10.2.2", (1, 5, 3), (4, None, 9), (3, 9, 8)),
        ("1.1.1", (1, 5, 4), (4, None, 9), (3, 9, 7)),
        ("2.8.2", (1, 5, 4), (6, 10, 9), (4, 9, 7)),
        ("3.9.1", (1, 5, 4), (5, 10, 9), (3, 9, 7)),
        ("4.3.1", (1, 5, 3), (3, 9, 8), (2, 8, 6)),
    ],
)
def test_truncations_are_reported_with_epoch_and_both_ends(
    version: str, first: tuple[object, ...], zombie: tuple[object, ...], unclean: tuple[object, ...]
) -> None:
    """Epoch followed, log end before, and after: of the killed leader, of the zombie, of the cleanly elected one."""
    one = _story(_events(version, 1), "truncation")
    two = _story([e for e in _events(version, 2) if "corrupt" not in (e.reason or "")], "truncation")
    assert one == [("truncation", *first), ("truncation", *zombie)]
    assert two == [("truncation", *unclean)]


@pytest.mark.parametrize(
    ("version", "reasons"),
    [
        ("0.9.0.1", ["high watermark on becoming follower", "leader's log ends earlier"]),
        ("0.10.2.2", ["high watermark on becoming follower", "leader's log ends earlier"]),
        ("1.1.1", ["diverged from the leader's log", "diverged from the leader's log"]),
        ("2.8.2", ["diverged from the leader's log", "diverged from the leader's log"]),
        ("3.9.1", ["diverged: the leader's epoch 0 ends at 4", "diverged: the leader's epoch 1 ends at 7"]),
        (
            "4.3.1",
            [
                "diverged: the leader's epoch 0 ends at 3",
                "diverged: the leader's epoch 1 ends at 6; below its own high watermark 8",
            ],
        ),
    ],
)
def test_truncations_are_reported_with_a_reason(version: str, reasons: list[str]) -> None:
    first = [next(e.reason for e in _events(version, broker) if e.event == "truncation") for broker in (1, 2)]
    assert first == reasons


@pytest.mark.parametrize("version", VERSIONS)
def test_leaderships_start_and_end_once_each(version: str) -> None:
    for broker in (1, 2):
        events = _events(version, broker)
        starts = [e.epoch or 0 for e in events if e.event == "leadership_start"]
        ends = [e.epoch or 0 for e in events if e.event == "leadership_end"]
        assert starts == sorted(set(starts)), "no epoch starts twice"
        assert starts
        assert set(ends) <= set(starts)
        assert ends == sorted(set(ends))


def test_a_leadership_is_reported_with_its_first_offset_since_1_1() -> None:
    """Before, only of a leader that has just begun to run: what a follower fetched is told nowhere."""
    for version in VERSIONS[2:]:
        partition_history = _story(_events(version, 2), "leadership_start")
        assert None not in [from_offset for _, _, from_offset, _ in partition_history]
    assert _story(_events("0.10.2.2", 1), "leadership_start")[:2] == [
        ("leadership_start", 0, 0, None),
        ("leadership_start", 3, None, None),
    ]


def test_a_leader_back_in_its_own_epoch_does_not_start_it_again() -> None:
    partition_history = _story(_events("4.3.1", 2), "leadership_start", "leadership_resumed", "leadership_end")
    assert partition_history[-3:] == [
        ("leadership_start", 3, 8, None),
        ("leadership_resumed", 3, 11, None),
        ("leadership_end", 3, 11, None),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_starts_and_ends_of_a_broker_are_reported(version: str) -> None:
    events = [event.event for event in _events(version, 2)]
    assert events.count("broker_start") == 4
    assert events.count("broker_stopping") == events.count("broker_stopped") == 2
    cleanness = [e.detail for e in _events(version, 2) if e.event == "broker_start"]
    assert [detail for detail in cleanness[1:3] if detail] == ['{"broker": 2, "clean": false}'] * 2
    told_at_the_end = version in ("2.8.2", "3.9.1", "4.3.1")
    assert cleanness[-1] == f'{{"broker": 2, "clean": {"true" if told_at_the_end else "null"}}}'


@pytest.mark.parametrize("version", VERSIONS)
def test_isr_changes_are_reported_by_the_leader(version: str) -> None:
    changes = [(e.event, e.detail) for e in _events(version, 2) if e.event.startswith("isr_")]
    assert changes[0] == ("isr_expand", "[2] -> [2,1]") or version == "4.3.1"
    assert any(event == "isr_shrink" and (detail or "").startswith("[2,1] -> [2]") for event, detail in changes)


@pytest.mark.parametrize(("version", "of"), [("0.9.0.1", 1), ("0.10.2.2", 1), ("3.9.1", 1), ("4.3.1", 1)])
def test_unclean_elections_are_reported_where_a_log_reports_them(version: str, of: int) -> None:
    rows = [e for e in _events(version, of) if e.event == "unclean_election"]
    assert [(e.topic, e.partition, e.node) for e in rows] == [("t", 0, 1)]


def test_an_unclean_election_is_of_the_broker_that_was_elected_whoever_reports_it() -> None:
    words = "No broker in ISR is alive for [t,0]. Elect leader 3 from live brokers 2,3. There's potential data loss."
    of_another = _said(f"[OfflinePartitionLeaderSelector]: {words}")
    assert [(e.event, e.node) for e in of_another] == [("unclean_election", 3)]


@pytest.mark.parametrize("version", ["0.9.0.1", "0.10.2.2", "2.8.2", "3.9.1"])
def test_a_zombie_leaders_refused_change_is_reported_once(version: str) -> None:
    refused = [e for e in _events(version, 1) if e.event == "isr_change_refused" and e.epoch in (3, 4)]
    assert len({(e.epoch, e.detail) for e in refused}) == len(refused) > 0


def test_a_refused_expansion_is_told_each_time_and_by_a_name_of_its_own() -> None:
    """`fenced`: the controller refuses to take a broker back that it has fenced; the leader goes on asking."""
    refused = _story(read_log_lines(NodeId(3), _DATA / "4.3.1-fenced-kraft-3.log", _ANCHOR), "isr_expand_refused")
    assert refused == [("isr_expand_refused", 1, None, None)] * 2
    assert not [each for version in VERSIONS for each in _events(version, 1) if each.event == "isr_expand_refused"]


def test_that_a_leader_learned_of_its_isr_is_told_with_its_high_watermark_by_then() -> None:
    events = read_log_lines(NodeId(3), _DATA / "4.3.1-learned-kraft-3.log", _ANCHOR)
    learned = [each for each in events if each.event == "isr_learned"]
    assert [(each.epoch, each.to_offset, each.detail) for each in learned] == [
        (4, 65, '{"partition_epoch": 7}'),
        (8, 215, '{"partition_epoch": 16}'),
    ]


@pytest.mark.parametrize(("version", "to"), [("2.8.2", 17), ("3.9.1", 17), ("4.3.1", 17)])
def test_a_torn_tail_is_reported_as_a_truncation_of_unknown_length(version: str, to: int) -> None:
    partition_history = _story(_events(version, 2, "repair"), "corrupt_batch", "truncation")
    assert [each for each in partition_history if each[-1] == to] == [
        ("corrupt_batch", None, None, to),
        ("truncation", None, None, to),
    ]


@pytest.mark.parametrize(
    ("version", "what", "to"),
    [("0.10.2.2", "retention", 11), ("1.1.1", "retention", 12), ("2.8.2", "retention", 12), ("4.3.1", "repair", 10)],
)
def test_a_follower_behind_the_leaders_first_offset_begins_its_log_anew(version: str, what: str, to: int) -> None:
    (rows,) = [e for e in _events(version, 2, what) if e.event == "truncation" and e.topic == "r"]
    assert (rows.from_offset, rows.to_offset) == (2, to)
    assert rows.reason == "leader's log starts later than this one ends"


def test_kraft_and_zookeeper_brokers_of_one_version_say_it_alike() -> None:
    path = _DATA / "3.9.1-elections-kraft-1.log"
    assert _story(read_log_lines(NodeId(1), path, _ANCHOR), "truncation") == [
        ("truncation", 1, 5, 4),
        ("truncation", 4, 10, 9),
    ]


# ---- lines ----------------------------------------------------------------------------------------------------------


def test_times_are_utc_placed_on_the_runs_axis() -> None:
    line = "2026-11-21 14:00:00,250 INFO [KafkaServer id=1] started (kafka.server.KafkaServer)\n"
    wall_ns = 1_795_269_600_000_000_000  # 14:00 UTC
    (event,) = events_of(NodeId(1), [line], Anchor(monotonic_ns=1_000, wall_ns=wall_ns))
    assert event.t_ns == 250_001_000


def test_kafkas_own_line_format_is_read_too() -> None:
    line = "[2026-11-21 14:00:00,250] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)"
    assert [e.event for e in events_of(NodeId(1), [line], _ANCHOR)] == ["broker_start"]


def test_a_line_torn_by_a_kill_does_not_count() -> None:
    line = "2026-11-21 14:00:00,250 INFO [Log partition=t-0, dir=/d] Truncating to offset 12 (kafka.log.Log)"
    for length in range(len(line)):
        assert events_of(NodeId(1), [line[:length]], _ANCHOR) == []
        assert events_of(NodeId(1), [line[:length] + line], _ANCHOR)[1:] == []
    (whole,) = events_of(NodeId(1), [line], _ANCHOR)
    assert (whole.topic, whole.partition, whole.to_offset) == ("t", 0, 12)


def test_a_broker_without_a_log_has_no_events(tmp_path: Path) -> None:
    assert read_log_lines(NodeId(1), tmp_path / "log", _ANCHOR) == []


def test_the_metadata_log_is_no_replica() -> None:
    assert _said("[LogLoader partition=__cluster_metadata-0, dir=/d] Recovering unflushed segment 0.") == []


def test_topics_with_dashes_and_dots_keep_their_names() -> None:
    (event,) = _said("[UnifiedLog partition=a-b.c-12, dir=/d] Truncating to offset 3")
    assert (event.topic, event.partition) == ("a-b.c", 12)


def test_a_truncation_without_effect_is_none() -> None:
    assert _said("Truncating log t-0 to offset 9.", *_FROM_JARS["0.10.2.2"]) == []
    assert (
        _said("[Log partition=t-0, dir=/d] Truncating to 9 has no effect as the largest offset in the log is 8") == []
    )
    assert (
        _said(
            "Completed load of log t-0 with 1 log segments and log end offset 9 in 9 ms",
            "Truncating log t-0 to offset 9.",
        )
        == []
    )


def test_a_repeated_line_is_an_event_again_only_after_the_isr_grew() -> None:
    shrink = "[Partition t-0 broker=1] Shrinking ISR from 1,2 to 1"
    expand = "[Partition t-0 broker=1] Expanding ISR from 1 to 1,2"
    events = _said(shrink, _FROM_JARS["1.1.1"][0], shrink, _FROM_JARS["1.1.1"][0], expand, expand, shrink, expand)
    rows = ["isr_shrink", "isr_change_refused", "isr_expand", "isr_shrink", "isr_expand"]
    assert [event.event for event in events] == rows


def test_a_failed_start_is_reported() -> None:
    (event,) = _said(*_FROM_JARS["2.8.2"])
    assert (event.event, event.detail) == ("broker_start_failed", "Prepare to shutdown")


@pytest.mark.parametrize(("version", "leader"), [("2.8.2", 1), ("4.3.1", 2)])
def test_that_a_client_had_records_deleted_is_told_by_the_leader(version: str, leader: int) -> None:
    assert _story(_events(version, leader, "trimming"), "records_deleted") == [("records_deleted", None, None, 10)]


def test_a_follower_that_takes_a_log_start_over_tells_no_request() -> None:
    taken_over = "Incremented log start offset to 10 due to leader offset increment"
    assert _said(f"[Log partition=t-0, dir=/data] {taken_over}") == []
