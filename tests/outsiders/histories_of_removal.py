"""Retention, compaction and timestamps: what was asked for, and what only looks like it."""

from harness.history.schema.schemas import KIND_FINAL_POLL
from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led


def _from(history: HistoryBuilder, start: int, **columns: object) -> HistoryBuilder:
    """The final log begins at `start`."""
    history.log = [entry for entry in history.log if entry[0] >= start]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=start, cleanup_policy="delete", **columns)
    return history


@case(
    "retention.ms=1000; the first five records went",
    PASS,
    {"removed-by-configuration observation": {0, 1, 2, 3, 4}},
    why="they were older by far when the final read began",
)
def expired() -> HistoryBuilder:
    return _from(led(topics={"t": {"retention.ms": "1000"}}), 5)


@case(
    "retention.ms of an hour in a run of two minutes; the first five went",
    VIOLATION,
    {"lost-write violation": {0, 1, 2, 3, 4}},
    why="none can have been that old, and nobody asked to delete records",
)
def expired_too_early() -> HistoryBuilder:
    return _from(led(topics={"t": {"retention.ms": "3600000"}}), 5)


@case(
    "the short retention is another topic's",
    VIOLATION,
    {"lost-write violation": {0, 1, 2, 3, 4}},
    why="another topic's setting is none of this topic's",
)
def expired_by_another_topics_setting() -> HistoryBuilder:
    history = led(topics={"t": {"retention.ms": "3600000"}, "u": {"retention.ms": "1000"}})
    history.configured("retention.ms", "1000", name="u")
    return _from(history, 5)


@case(
    "records went from above the log's start, under a short retention",
    VIOLATION,
    {"lost-write violation": {7}, "removed-by-configuration observation": {0, 1, 2, 3, 4}},
    why="retention takes only what lies below the log's start",
)
def gone_above_the_start() -> HistoryBuilder:
    history = led(topics={"t": {"retention.ms": "1000"}})
    history.log = [entry for entry in history.log if entry[2] != 7]
    return _from(
        history,
        5,
    )


def _compacted(*keep: int, keys: tuple[int, ...], **more: object) -> HistoryBuilder:
    """Value n, at offset n, has keys[n]; the final log of the compacted topic has those of `keep`."""
    history = HistoryBuilder(topics={"t": {"cleanup.policy": "compact"}}).state(1, 0, (1, 2, 3), at=0, start=0)
    for value, key in enumerate(keys):
        history.ack(value, at=1 + value, key=key)
    history.log = [entry for entry in history.log if entry[2] in keep]
    history.finish(snapshots=False)
    history.partition.update(log_start_offset=0, cleanup_policy="compact", end_offset=len(keys))
    for row in history.rows["records"]:
        if row["kind"] == KIND_FINAL_POLL:
            row["key"] = keys[row["value"]]
    return history


@case(
    "what was written over is gone, the last of each key is there",
    PASS,
    {"removed-by-configuration observation": {0, 1}},
    why="what compaction is for",
)
def compacted() -> HistoryBuilder:
    return _compacted(2, 3, keys=(1, 2, 1, 2))


@case(
    "the last of key 1 is gone, its older one is there",
    VIOLATION,
    {"compacted-away violation": {2}},
    also=("lost-write violation",),
    why="compaction may not take the last of a key",
)
def last_of_a_key_gone() -> HistoryBuilder:
    return _compacted(0, 1, 3, keys=(1, 2, 1, 2))


@case(
    "both records of key 1 are gone",
    VIOLATION,
    {"compacted-away violation": {2}, "removed-by-configuration observation": {0, 1}},
    also=("lost-write violation",),
    why="the older was written over by the newer, which nothing may take",
)
def all_of_a_key_gone() -> HistoryBuilder:
    return _compacted(3, keys=(1, 2, 1, 2))


@case(
    "the only later record of the key had no answer and was never seen",
    VIOLATION,
    {"compacted-away violation": {0}},
    also=("lost-write violation",),
    why="no later record of the key is known",
)
def written_over_by_nobody_knows() -> HistoryBuilder:
    return _compacted(1, keys=(1, 2)).send(50, None, at=20, status=2, key=1)


@case(
    "the only later record of the key is in another partition",
    VIOLATION,
    {"compacted-away violation": {0}},
    also=("lost-write violation",),
    why="a key is written over in its own partition",
)
def written_over_in_another_partition() -> HistoryBuilder:
    history = _compacted(1, keys=(1, 2)).place(1, "t", 1, cleanup_policy="compact", log_start_offset=0)
    history.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    history.send(60, 0, at=20, key=1, partition_id=1)
    return history.final([(0, 60)], partition_id=1)


@case(
    "the later record of the key was refused",
    VIOLATION,
    {"compacted-away violation": {0}},
    also=("lost-write violation",),
    why="what was not appended writes nothing over",
)
def written_over_by_a_refused_record() -> HistoryBuilder:
    return _compacted(1, keys=(1, 2)).send(50, None, at=20, status=1, key=1)


@case(
    "the log of a topic that only compacts begins at 2, and the last of a key lay below",
    VIOLATION,
    also=("compacted-away violation", "lost-write violation", "removed-by-configuration observation"),
    why="a topic that does not delete has no retention",
)
def start_moved_where_only_compaction_is() -> HistoryBuilder:
    history = _compacted(2, 3, keys=(1, 2, 3, 4))
    history.partition["log_start_offset"] = 2
    return history


@case(
    "a tombstone is gone after two minutes with delete.retention.ms=1000, and so is what it deletes",
    PASS,
    {"removed-by-configuration observation": {0, 2}},
    why="lawfully removed, and no earlier record of its key is left",
)
def tombstone_expired() -> HistoryBuilder:
    return _tombstone(1, retention_ms="1000")


@case(
    "the tombstone is gone, and what it deletes is there again",
    VIOLATION,
    {"compacted-away violation": {2}},
    also=("lost-write violation",),
    why="removed before what it deletes",
)
def tombstone_gone_before_what_it_deletes() -> HistoryBuilder:
    return _tombstone(0, 1, retention_ms="1000")


@case(
    "the tombstone is gone after two minutes, with delete.retention.ms of a day",
    VIOLATION,
    {"compacted-away violation": {2}, "removed-by-configuration observation": {0}},
    also=("lost-write violation",),
    why="removed sooner than asked",
)
def tombstone_gone_too_soon() -> HistoryBuilder:
    return _tombstone(1, retention_ms="86400000")


def _tombstone(*keep: int, retention_ms: str) -> HistoryBuilder:
    """Key 1 is written at 0 and deleted at 2."""
    history = _compacted(*keep, keys=(1, 2, 1))
    topic = history.scenario.topics[0]
    settings = {**topic.settings, "delete.retention.ms": retention_ms}
    object.__setattr__(topic, "settings", settings)
    for row in history.rows["records"]:
        row["tombstone"] = row["value"] == 2
    return history


def _stamped(
    *stamps: int, epochs: tuple[int, ...] = (0, 0, 0), answered: tuple[int, ...] = (), broker: bool = True
) -> HistoryBuilder:
    """Values 0 to 2 with the timestamps that readers got; `answered`: the producer's, if not the same."""
    history = HistoryBuilder(topics={"t": {"message.timestamp.type": "LogAppendTime" if broker else "CreateTime"}})
    history.state(1, 0, (1, 2, 3), at=0, start=0)
    for value, epoch in enumerate(epochs):
        if epoch > history._epoch:
            history.state(2, epoch, (1, 2, 3), at=0.9 + value, start=value)
        history.ack(value, at=1 + value)
    history.finish()
    for row in history.rows["records"]:
        given = stamps if row["kind"] == KIND_FINAL_POLL else (answered or stamps)
        row.update(timestamp_ms=given[row["value"]], log_append=broker)
    return history


@case("LogAppendTime rises", PASS, {}, why="a sound history")
def stamps_rise() -> HistoryBuilder:
    return _stamped(1050, 2050, 3050)


@case(
    "LogAppendTime goes back within an epoch",
    VIOLATION,
    {"timestamps violation": SOME},
    why="one broker's stamps do not go back",
)
def stamps_go_back() -> HistoryBuilder:
    return _stamped(1050, 2050, 2040)


@case(
    "LogAppendTime goes back from one leader to the next",
    PASS,
    {"timestamps observation": SOME},
    why="two clocks may differ",
)
def stamps_go_back_across_leaders() -> HistoryBuilder:
    return _stamped(1050, 2050, 2040, epochs=(0, 0, 1))


@case("CreateTime goes back", PASS, {}, why="producers may stamp as they like")
def create_time_goes_back() -> HistoryBuilder:
    return _stamped(1050, 2050, 2040, broker=False)


@case(
    "a reader gets another LogAppendTime than the producer was answered",
    VIOLATION,
    {"timestamps violation": SOME},
    why="the timestamp changed",
)
def stamp_changed() -> HistoryBuilder:
    return _stamped(1050, 2050, 3050, answered=(1050, 2060, 3050))


@case(
    "somebody else's cluster: the log begins at 5, and no setting moved it",
    OPEN,
    also=("lost-write observation",),
    why="moved by an unknown hand: DeleteRecords may be asked for by anybody",
)
def start_moved_by_an_unknown_hand() -> HistoryBuilder:
    return _from(led(topics={"t": {"retention.ms": "3600000"}}, system="attached"), 5)


@case(
    "retention.ms=1000; the first five records went, and at the end no leader answers where the log starts",
    OPEN,
    {"removed-by-configuration observation": {0, 1, 2, 3, 4}, "unreadable observation": {5, 6, 7, 8, 9}},
    why="the log of the only in-sync replica says where it starts",
)
def expired_and_nobody_leads() -> HistoryBuilder:
    history = led(topics={"t": {"retention.ms": "1000"}})
    history.log = [entry for entry in history.log if entry[0] >= 5]
    history.fault("kill", [1], at=60, until=None)
    history.state(-1, 1, (1,), at=62)
    history.replica(1, history.log, high_watermark=10)
    history.rows["replica_snapshots"][-1]["log_start_offset"] = 5
    history.partition.update(read_to_end=False, end_offset=None, log_start_offset=None, cleanup_policy="delete")
    return history
