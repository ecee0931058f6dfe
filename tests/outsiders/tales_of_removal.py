"""Retention, compaction and timestamps: what was asked for, and what only looks like it."""

from harness.history.schema.schemas import KIND_FINAL_POLL
from tests.outsiders.tale import OPEN, PASS, SOME, VIOLATION, Tale, led, tale


def _from(told: Tale, start: int, **columns: object) -> Tale:
    """The final log begins at `start`."""
    told.log = [entry for entry in told.log if entry[0] >= start]
    told.finish(snapshots=False)
    told.partition.update(log_start_offset=start, cleanup_policy="delete", **columns)
    return told


@tale("retention.ms=1000; the first five records went", PASS, {"removed-by-configuration observation": {0, 1, 2, 3, 4}},
      why="they were older by far when the final read began")  # fmt: skip
def expired() -> Tale:
    return _from(led(topics={"t": {"retention.ms": "1000"}}), 5)


@tale("retention.ms of an hour in a run of two minutes; the first five went", VIOLATION,
      {"lost-write violation": {0, 1, 2, 3, 4}},
      why="none can have been that old, and nobody asked to delete records")  # fmt: skip
def expired_too_early() -> Tale:
    return _from(led(topics={"t": {"retention.ms": "3600000"}}), 5)


@tale("the short retention is another topic's", VIOLATION, {"lost-write violation": {0, 1, 2, 3, 4}},
      why="another topic's setting is none of this topic's")  # fmt: skip
def expired_by_another_topics_setting() -> Tale:
    told = led(topics={"t": {"retention.ms": "3600000"}, "u": {"retention.ms": "1000"}})
    told.configured("retention.ms", "1000", name="u")
    return _from(told, 5)


@tale("records went from above the log's start, under a short retention", VIOLATION, {"lost-write violation": {7},
      "removed-by-configuration observation": {0, 1, 2, 3, 4}},
      why="retention takes only what lies below the log's start")  # fmt: skip
def gone_above_the_start() -> Tale:
    told = led(topics={"t": {"retention.ms": "1000"}})
    told.log = [entry for entry in told.log if entry[2] != 7]
    return _from(
        told,
        5,
    )


def _compacted(*keep: int, keys: tuple[int, ...], **more: object) -> Tale:
    """Value n, at offset n, has keys[n]; the final log of the compacted topic has those of `keep`."""
    told = Tale(topics={"t": {"cleanup.policy": "compact"}})
    told.state(1, 0, (1, 2, 3), at=0, start=0)
    for value, key in enumerate(keys):
        told.ack(value, at=1 + value, key=key)
    told.log = [entry for entry in told.log if entry[2] in keep]
    told.finish(snapshots=False)
    told.partition.update(log_start_offset=0, cleanup_policy="compact", end_offset=len(keys))
    for row in told.rows["records"]:
        if row["kind"] == KIND_FINAL_POLL:
            row["key"] = keys[row["value"]]
    return told


@tale("what was written over is gone, the last of each key is there", PASS,
      {"removed-by-configuration observation": {0, 1}}, why="what compaction is for")  # fmt: skip
def compacted() -> Tale:
    return _compacted(2, 3, keys=(1, 2, 1, 2))


@tale("the last of key 1 is gone, its older one is there", VIOLATION, {"compacted-away violation": {2}},
      also=("lost-write violation",), why="compaction may not take the last of a key")  # fmt: skip
def last_of_a_key_gone() -> Tale:
    return _compacted(0, 1, 3, keys=(1, 2, 1, 2))


@tale("both records of key 1 are gone", VIOLATION,
      {"compacted-away violation": {2}, "removed-by-configuration observation": {0, 1}},
      also=("lost-write violation",),
      why="the older was written over by the newer, which nothing may take")  # fmt: skip
def all_of_a_key_gone() -> Tale:
    return _compacted(3, keys=(1, 2, 1, 2))


@tale("the only later record of the key had no answer and was never seen", VIOLATION, {"compacted-away violation": {0}},
      also=("lost-write violation",), why="no later record of the key is known")  # fmt: skip
def written_over_by_nobody_knows() -> Tale:
    told = _compacted(1, keys=(1, 2))
    told.send(50, None, at=20, status=2, key=1)
    return told


@tale("the only later record of the key is in another partition", VIOLATION, {"compacted-away violation": {0}},
      also=("lost-write violation",), why="a key is written over in its own partition")  # fmt: skip
def written_over_in_another_partition() -> Tale:
    told = _compacted(1, keys=(1, 2))
    told.place(1, "t", 1, cleanup_policy="compact", log_start_offset=0)
    told.state(2, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    told.send(60, 0, at=20, key=1, partition_id=1)
    told.final([(0, 60)], partition_id=1)
    return told


@tale("the later record of the key was refused", VIOLATION, {"compacted-away violation": {0}},
      also=("lost-write violation",), why="what was not appended writes nothing over")  # fmt: skip
def written_over_by_a_refused_record() -> Tale:
    told = _compacted(1, keys=(1, 2))
    told.send(50, None, at=20, status=1, key=1)
    return told


@tale("the log of a topic that only compacts begins at 2, and the last of a key lay below", VIOLATION, {},
      also=("compacted-away violation", "lost-write violation", "removed-by-configuration observation"),
      why="a topic that does not delete has no retention")  # fmt: skip
def start_moved_where_only_compaction_is() -> Tale:
    told = _compacted(2, 3, keys=(1, 2, 3, 4))
    told.partition["log_start_offset"] = 2
    return told


@tale("a tombstone is gone after two minutes with delete.retention.ms=1000, and so is what it deletes", PASS,
      {"removed-by-configuration observation": {0, 2}},
      why="lawfully removed, and no earlier record of its key is left")  # fmt: skip
def tombstone_expired() -> Tale:
    return _tombstone(1, retention_ms="1000")


@tale("the tombstone is gone, and what it deletes is there again", VIOLATION, {"compacted-away violation": {2}},
      also=("lost-write violation",), why="removed before what it deletes")  # fmt: skip
def tombstone_gone_before_what_it_deletes() -> Tale:
    return _tombstone(0, 1, retention_ms="1000")


@tale("the tombstone is gone after two minutes, with delete.retention.ms of a day", VIOLATION,
      {"compacted-away violation": {2}, "removed-by-configuration observation": {0}}, also=("lost-write violation",),
      why="removed sooner than asked")  # fmt: skip
def tombstone_gone_too_soon() -> Tale:
    return _tombstone(1, retention_ms="86400000")


def _tombstone(*keep: int, retention_ms: str) -> Tale:
    """Key 1 is written at 0 and deleted at 2."""
    told = _compacted(*keep, keys=(1, 2, 1))
    topic = told.scenario.topics[0]
    settings = {**topic.settings, "delete.retention.ms": retention_ms}
    object.__setattr__(topic, "settings", settings)
    for row in told.rows["records"]:
        row["tombstone"] = row["value"] == 2
    return told


def _stamped(
    *stamps: int, epochs: tuple[int, ...] = (0, 0, 0), answered: tuple[int, ...] = (), broker: bool = True
) -> Tale:
    """Values 0 to 2 with the timestamps that readers got; `answered`: the producer's, if not the same."""
    told = Tale(topics={"t": {"message.timestamp.type": "LogAppendTime" if broker else "CreateTime"}})
    told.state(1, 0, (1, 2, 3), at=0, start=0)
    for value, epoch in enumerate(epochs):
        if epoch > told._epoch:
            told.state(2, epoch, (1, 2, 3), at=0.9 + value, start=value)
        told.ack(value, at=1 + value)
    told.finish()
    for row in told.rows["records"]:
        given = stamps if row["kind"] == KIND_FINAL_POLL else (answered or stamps)
        row.update(timestamp_ms=given[row["value"]], log_append=broker)
    return told


@tale("LogAppendTime rises", PASS, {}, why="a sound history")  # fmt: skip
def stamps_rise() -> Tale:
    return _stamped(1050, 2050, 3050)


@tale("LogAppendTime goes back within an epoch", VIOLATION, {"timestamps violation": SOME},
      why="one broker's stamps do not go back")  # fmt: skip
def stamps_go_back() -> Tale:
    return _stamped(1050, 2050, 2040)


@tale("LogAppendTime goes back from one leader to the next", PASS, {"timestamps observation": SOME},
      why="two clocks may differ")  # fmt: skip
def stamps_go_back_across_leaders() -> Tale:
    return _stamped(1050, 2050, 2040, epochs=(0, 0, 1))


@tale("CreateTime goes back", PASS, {}, why="producers may stamp as they like")  # fmt: skip
def create_time_goes_back() -> Tale:
    return _stamped(1050, 2050, 2040, broker=False)


@tale("a reader gets another LogAppendTime than the producer was answered", VIOLATION, {"timestamps violation": SOME},
      why="the timestamp changed")  # fmt: skip
def stamp_changed() -> Tale:
    return _stamped(1050, 2050, 3050, answered=(1050, 2060, 3050))


@tale("somebody else's cluster: the log begins at 5, and no setting moved "
      "it", OPEN, {}, also=("lost-write observation",),
      why="moved by an unknown hand: DeleteRecords may be asked for by anybody")  # fmt: skip
def start_moved_by_an_unknown_hand() -> Tale:
    return _from(led(topics={"t": {"retention.ms": "3600000"}}, system="attached"), 5)
