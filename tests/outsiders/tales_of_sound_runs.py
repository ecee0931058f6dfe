"""Sound runs that look odd, and promises broken beside losses: settings by level, positions, retention by value."""

from tests.outsiders.tale import OPEN, PASS, SOME, VIOLATION, Tale, led, tale

MINIMUM = "min.insync.replicas"


@tale("the same leader gets a new epoch five times in a row, and acknowledges in each", PASS, {},
      why="a sound history")  # fmt: skip
def one_leader_in_many_epochs() -> Tale:
    told = led(3)
    for epoch in range(1, 6):
        told.state(1, epoch, (1, 2, 3), at=5 * epoch, start=len(told.log))
        told.ack(10 + epoch, at=5 * epoch + 1)
    told.poll([(offset, value) for offset, _, value in told.log], at=40)
    told.finish()
    return told


@tale("leadership goes round three times by clean shutdowns, with leaderless moments, and epochs jump", PASS, {},
      why="a sound history")  # fmt: skip
def leadership_goes_round() -> Tale:
    told = led(3)
    epoch = 0
    for turn in range(9):
        old, new = turn % 3 + 1, (turn + 1) % 3 + 1
        at = 5.0 + 5 * turn
        told.fault("stop", [old], at=at, until=at + 2)
        told.state(-1, epoch + 1, (1, 2, 3), at=at + 0.2)
        told.state(new, epoch + 3, [node for node in (1, 2, 3) if node != old], at=at + 0.4, start=len(told.log))
        told.state(new, epoch + 3, (1, 2, 3), at=at + 3)
        epoch += 3
        told.ack(100 + turn, at=at + 1)
    told.finish()
    return told


@tale("a producer's call lasts from before a fail-over to after it, and the record is there once", PASS, {},
      why="a retry of an idempotent producer, lawfully answered late")  # fmt: skip
def sent_across_a_fail_over() -> Tale:
    told = led(5)
    told.client(1, role="producer", acks=-1, idempotent=True, tells_attempts=True)
    told.send(50, 5, at=5, took=7)
    told.failed_attempt(at=6.1)
    told.fail_over(2)
    told.log.append((5, 1, 50))
    told.finish()
    return told


@tale("an eligible leader replica is elected after the ISR had run empty, and nothing is lost", PASS, {},
      why="KIP-966: lawful")  # fmt: skip
def eligible_replica_leads() -> Tale:
    told = led(5, topics={"t": {MINIMUM: "2"}})
    told.state(1, 0, (1,), at=4, elr=(2,))
    told.fault("kill", [1], at=6, until=20)
    told.state(-1, 1, (), at=7, elr=(1, 2))
    told.state(2, 2, (2,), at=8, start=5, elr=(1,))
    told.state(2, 2, (1, 2, 3), at=25, elr=())
    told.ack(50, at=30)
    told.finish()
    return told


@tale("acks=all is answered just after the ISR fell below the minimum, by a call that began before", PASS, {},
      why="only what was sent after the leader knew counts")  # fmt: skip
def answered_after_the_shrink() -> Tale:
    told = led(5, topics={"t": {MINIMUM: "2"}})
    told.send(5, 5, at=4.95, took=0.1)
    told.log.append((5, 0, 5))
    told.state(1, 0, (1,), at=5)
    told.polled(1, 1, 0, (1,), at=5.01)
    told.state(1, 0, (1, 2, 3), at=20)
    told.finish()
    return told


def _alone(*, settings: dict[str, str], topic: dict[str, str], observer: int | None = 1) -> Tale:
    told = led(5, settings=settings, topics={"t": topic})
    told.state(1, 0, (1,), at=5)
    if observer is not None:
        told.polled(observer, 1, 0, (1,), at=5.2)
    told.ack(5, at=6)
    told.finish()
    return told


@tale("the minimum of 2 is the cluster's, and the topic has none of its own", VIOLATION,
      {"acknowledged-below-min-isr violation": 1},
      why="the cluster's setting holds where the topic has none")  # fmt: skip
def below_the_clusters_minimum() -> Tale:
    return _alone(settings={MINIMUM: "2"}, topic={})


@tale("the cluster's minimum is 2, the topic's own 1", PASS, {},
      why="the topic's own setting stands before it")  # fmt: skip
def above_the_topics_own_minimum() -> Tale:
    return _alone(settings={MINIMUM: "2"}, topic={MINIMUM: "1"})


@tale("the topic's minimum of 2 was taken away (an empty value) before", PASS, {},
      why="Kafka's default is 1")  # fmt: skip
def above_a_minimum_that_was_taken_away() -> Tale:
    told = _alone(settings={}, topic={MINIMUM: "2"})
    told.configured(MINIMUM, "", at=3)
    return told


@tale("only another broker's metadata showed the shrink", OPEN, {"acknowledged-below-min-isr observation": 1},
      why="nothing shows that the leader itself knew")  # fmt: skip
def below_the_minimum_as_a_follower_knew() -> Tale:
    return _alone(settings={}, topic={MINIMUM: "2"}, observer=2)


@tale("a leader is elected with an ISR of itself alone, minimum 2, and answers acks=all", VIOLATION,
      {"acknowledged-below-min-isr violation": 1}, why="a leader knows the ISR that it was elected with")  # fmt: skip
def elected_alone_and_answering() -> Tale:
    told = led(5, topics={"t": {MINIMUM: "2"}})
    told.fault("kill", [1, 3], at=7)
    told.state(2, 1, (2,), at=8, start=5)
    told.ack(5, at=20)
    told.finish(only=(2,))
    return told


@tale("a compacted topic's consumer polls over the holes that compaction made", PASS, {},
      also=("removed-by-configuration observation",), why="offsets that hold nothing are no skip")  # fmt: skip
def polls_over_compacted_holes() -> Tale:
    told = Tale(topics={"t": {"cleanup.policy": "compact"}})
    told.state(1, 0, (1, 2, 3), at=0, start=0)
    for value in range(8):
        told.ack(value, at=1 + value, key=value % 2)
    told.poll([(0, 0), (1, 1)], at=5)
    told.poll([(6, 6), (7, 7)], at=30)
    told.log = told.log[6:]
    told.finish(snapshots=False)
    told.partition.update(cleanup_policy="compact", log_start_offset=0)
    for row in told.rows["records"]:
        row["key"] = row["value"] % 2
    return told


@tale("retention.ms was short for one second at the begin, and records of then went", PASS,
      {"removed-by-configuration observation": {0, 1, 2}},
      why="every value that a setting ever had counts in favour of the system")  # fmt: skip
def expired_by_a_setting_of_once() -> Tale:
    told = led(topics={"t": {"retention.ms": "3600000"}})
    told.configured("retention.ms", "100", at=5)
    told.configured("retention.ms", "3600000", at=6)
    told.log = told.log[3:]
    told.finish(snapshots=False)
    told.partition.update(log_start_offset=3, cleanup_policy="delete")
    return told


@tale("retention.bytes leaves room for a thousand times what there was, and the first three went", VIOLATION,
      {"lost-write violation": {0, 1, 2}}, why="so much cannot lie above the log's start")  # fmt: skip
def removed_though_there_was_room() -> Tale:
    told = led(topics={"t": {"retention.bytes": "10000000", "retention.ms": "-1"}})
    told.log = told.log[3:]
    told.finish(snapshots=False)
    told.partition.update(log_start_offset=3, cleanup_policy="delete")
    return told


@tale("a consumer read what retention then removed", PASS, {"removed-by-configuration observation": {0, 1, 2}},
      why="what retention removed is no dirty read")  # fmt: skip
def read_and_then_expired() -> Tale:
    told = led(topics={"t": {"retention.ms": "1000"}})
    told.poll([(offset, offset) for offset in range(10)], at=3)
    told.log = told.log[3:]
    told.finish(snapshots=False)
    told.partition.update(log_start_offset=3, cleanup_policy="delete")
    return told


@tale("a broker stamps a record five seconds before it was sent, by this machine's clock", VIOLATION,
      {"timestamps violation": SOME},
      why="outside the time between send and acknowledgement, by more than a second")  # fmt: skip
def stamped_before_it_was_sent() -> Tale:
    told = Tale(topics={"t": {"message.timestamp.type": "LogAppendTime"}})
    told.anchors = [{"wall_ns": 0, "monotonic_ns": 0}]
    told.state(1, 0, (1, 2, 3), at=0, start=0)
    told.ack(0, at=10)
    told.ack(1, at=20)
    told.finish()
    for row in told.rows["records"]:
        row.update(timestamp_ms=10_050 if row["value"] == 0 else 15_000, log_append=True)
    return told


@tale("commits of two partitions are fetched apart", PASS, {}, why="a group's offset is of one partition")  # fmt: skip
def commits_of_two_partitions() -> Tale:
    told = _group()
    told.place(1, "t", 1)
    told.group("committed", at=4, process=11, offset=10, generation=1)
    told.group("committed", at=4.1, process=11, offset=0, generation=1, partition_id=1)
    told.group("fetched", at=50, process=12, offset=10)
    told.group("fetched", at=50, process=12, offset=0, partition_id=1)
    told.finish()
    return told


@tale("a commit is gone after two minutes where offsets are kept for one", PASS, {},
      why="an offset that is gone after offsets.retention.minutes is not lost")  # fmt: skip
def commit_expired() -> Tale:
    told = _group(settings={"offsets.retention.minutes": "1"})
    told.group("committed", at=4, process=11, offset=10, generation=1)
    told.group("revoked", at=5, process=11, generation=1)
    told.group("fetched", at=130, process=12, offset=-1)
    told.finish()
    return told


@tale("a commit is gone after half a minute where offsets are kept for one", VIOLATION,
      {"lost-group-offset violation": SOME}, why="it cannot have expired yet")  # fmt: skip
def commit_gone_before_it_expired() -> Tale:
    told = _group(settings={"offsets.retention.minutes": "1"})
    told.group("committed", at=4, process=11, offset=10, generation=1)
    told.group("fetched", at=34, process=12, offset=-1)
    told.finish()
    return told


def _group(**more: object) -> Tale:
    told = led(**more)  # type: ignore[arg-type]
    for process in (11, 12):
        told.client(process, role="consumer", group="g", offset_reset="earliest", isolation="read_uncommitted")
    told.group("assigned", at=2.5, process=11, generation=1, offset=0)
    told.poll([(offset, offset) for offset in range(10)], at=3, process=11)
    return told


@tale("a member that was deposed by the next generation commits, and is told that it holds", (PASS, VIOLATION, OPEN),
      {}, also=("two-owners violation", "lost-group-offset violation", "group-redelivery observation",
                "group-skip violation", "group-redelivery violation"),
      why="unsure: the page says its commits must be refused from then on, but states no finding of it")  # fmt: skip
def zombie_member_commits() -> Tale:
    told = _group()
    told.group("committed", at=4, process=11, offset=5, generation=1)
    told.group("assigned", at=6, process=12, generation=2, offset=5)
    told.poll([(offset, offset) for offset in range(5, 10)], at=7, process=12)
    told.group("committed", at=8, process=11, offset=10, generation=1)
    told.group("fetched", at=50, process=12, offset=10)
    told.finish()
    return told


@tale("unanswered sends are in no log", PASS, {}, why="nobody was promised anything")  # fmt: skip
def unanswered_and_gone() -> Tale:
    told = led(5)
    for value in (50, 51, 52):
        told.send(value, None, at=3, status=2)
    told.fail_over(2)
    told.finish()
    return told


@tale("an unanswered record is read, then cut by an allowed unclean election", PASS, {"dirty-read permitted": {50}},
      also=("unclean-election observation", "unclean-election permitted"),
      why="what was read was committed; the election was allowed")  # fmt: skip
def unanswered_read_and_cut() -> Tale:
    told = led(5, topics={"t": {"unclean.leader.election.enable": "true"}})
    told.send(50, None, at=3, status=2)
    told.log.append((5, 0, 50))
    told.poll([(offset, value) for offset, _, value in told.log], at=3.5, epoch=0)
    told.state(1, 0, (1,), at=4)
    told.fail_over(2, kept=5, isr=(2,))
    told.finish()
    return told


@tale("the same with a clean election", VIOLATION, {"dirty-read violation": {50}},
      why="nothing may take what was read")  # fmt: skip
def unanswered_read_and_cut_by_a_clean_election() -> Tale:
    told = led(5, topics={"t": {"unclean.leader.election.enable": "true"}})
    told.send(50, None, at=3, status=2)
    told.log.append((5, 0, 50))
    told.poll([(offset, value) for offset, _, value in told.log], at=3.5, epoch=0)
    told.fail_over(2, kept=5)
    told.finish()
    return told


@tale("a read_committed consumer was given a record whose transaction's outcome nobody knows; the final log lacks it",
      VIOLATION, {"dirty-read violation": {5}}, also=("aborted-read violation", "torn-transaction violation"),
      why="read_committed hands out what was committed, and it is gone")  # fmt: skip
def read_committed_and_gone() -> Tale:
    told = Tale()
    told.state(1, 0, (1, 2, 3), at=0, start=0)
    told.client(1, role="producer", acks=-1, idempotent=True, transactional_id="id")
    told.client(9, role="consumer", isolation="read_committed", offset_reset="earliest")
    told.client(99, role="consumer", isolation="read_committed", offset_reset="earliest")
    told.send(5, 0, at=1, transaction=1, status=2)
    told.transaction(1, 2, at=0.9, until=2)
    told.ack(8, at=6, process=2)
    told.poll([(0, 5)], at=4)
    told.log = [(2, 0, 8)]
    for row in told.rows["records"]:
        if row["value"] == 8:
            row["offset"] = 2
    told.finish(snapshots=False)
    return told


@tale("the same of a read_uncommitted consumer", PASS, {}, why="it may see what is never committed")  # fmt: skip
def read_uncommitted_and_gone() -> Tale:
    told = read_committed_and_gone()
    for row in told.rows["processes"]:
        if row["process"] == 9:
            row["isolation"] = "read_uncommitted"
    return told
