"""Unclean elections: who allowed them, where, when, and what outlived them."""

from tests.outsiders.history_builder import OPEN, PASS, SOME, VIOLATION, HistoryBuilder, case, led

UNCLEAN = "unclean.leader.election.enable"
FORBIDDEN = {"lost-write violation": {7, 8, 9}, "unclean-election violation": SOME}
ALLOWED = {"lost-write permitted": {7, 8, 9}, "unclean-election permitted": SOME}


def _unclean(history: HistoryBuilder | None = None) -> HistoryBuilder:
    history = history or led(topics={"t": {}, "u": {}})
    history.state(1, 0, (1,), at=4)
    return history.fail_over(2, kept=7, isr=(2,))


@case(
    "unclean elections are allowed of another topic only",
    VIOLATION,
    FORBIDDEN,
    why="an exception reaches no further than its topic",
)
def unclean_allowed_of_another_topic() -> HistoryBuilder:
    return _unclean().configured(UNCLEAN, "true", name="u").finish()


@case(
    "allowed by the scenario for another topic only",
    VIOLATION,
    FORBIDDEN,
    why="an exception reaches no further than its topic",
)
def unclean_allowed_by_the_scenario_of_another_topic() -> HistoryBuilder:
    return _unclean(led(topics={"t": {}, "u": {UNCLEAN: "true"}})).finish()


@case(
    "the cluster allows it, the topic's own setting forbids it",
    VIOLATION,
    FORBIDDEN,
    why="a topic's own setting stands before the cluster's",
)
def unclean_forbidden_by_the_topic_itself() -> HistoryBuilder:
    return _unclean(led(settings={UNCLEAN: "true"}, topics={"t": {UNCLEAN: "false"}})).finish()


@case(
    "the cluster forbids it, the topic's own setting allows it",
    PASS,
    ALLOWED,
    why="a topic's own setting stands before the cluster's",
)
def unclean_allowed_by_the_topic_itself() -> HistoryBuilder:
    return _unclean(led(settings={UNCLEAN: "false"}, topics={"t": {UNCLEAN: "true"}})).finish()


@case("a row of the cluster's dynamic default allows it", PASS, ALLOWED, why="the cluster's setting allows it")
def unclean_allowed_by_the_cluster_dynamically() -> HistoryBuilder:
    return _unclean().configured(UNCLEAN, "true", scope="cluster", name="").finish()


@case(
    "broker 3 alone, which takes no part, has the setting",
    OPEN,
    {"lost-write observation": {7, 8, 9}, "unclean-election observation": SOME},
    why="the controller's own setting decides, and nobody recorded who that was",
)
def unclean_allowed_by_a_bystander() -> HistoryBuilder:
    return _unclean().configured(UNCLEAN, "true", scope="broker", name="3", node=3).finish()


@case(
    "allowed until second 4, forbidden since; the election is at second 8",
    VIOLATION,
    FORBIDDEN,
    why="of that topic at that time",
)
def unclean_allowed_earlier() -> HistoryBuilder:
    return _unclean().configured(UNCLEAN, "true", at=0).configured(UNCLEAN, "false", at=4).finish()


@case(
    "the topic's permission is taken away (an empty value) at second 4; the election is at second 8",
    VIOLATION,
    FORBIDDEN,
    why="a key that is taken away has an empty value, and the default is false",
)
def unclean_permission_taken_away() -> HistoryBuilder:
    return _unclean().configured(UNCLEAN, "true", at=0).configured(UNCLEAN, "", at=4).finish()


@case(
    "the scenario's topic allows it, and the books' first word is that it was forbidden a minute after",
    PASS,
    ALLOWED,
    why="of that topic at that time",
)
def unclean_forbidden_later() -> HistoryBuilder:
    return _unclean(led(topics={"t": {UNCLEAN: "true"}})).configured(UNCLEAN, "false", at=60).finish()


@case("allowed only after the election", VIOLATION, FORBIDDEN, why="of that topic at that time")
def unclean_allowed_later() -> HistoryBuilder:
    return _unclean().configured(UNCLEAN, "true", at=20).finish()


@case(
    "an operator's request for it failed just before",
    OPEN,
    {"lost-write observation": {7, 8, 9}, "unclean-election observation": SOME},
    why="a step fails when no answer comes, too: it may have been granted; never permitted, and no violation",
)
def unclean_request_that_failed() -> HistoryBuilder:
    return _unclean().asked_unclean("failed", at=7.5, until=7.9).finish()


@case(
    "an operator's request for another topic's partition was granted at that time",
    VIOLATION,
    FORBIDDEN,
    why="an exception reaches no further than its topic",
)
def unclean_request_of_another_topic() -> HistoryBuilder:
    return _unclean().asked_unclean("ok", at=7.5, until=8.2, topic="u").finish()


@case(
    "an operator's request for partition 1 of the same topic was granted at that time",
    VIOLATION,
    FORBIDDEN,
    why="an exception reaches no further than its partition",
)
def unclean_request_of_another_partition() -> HistoryBuilder:
    history = led().place(1, "t", 1)
    _unclean(history)
    return history.asked_unclean("ok", at=7.5, until=8.2, partition=1).finish()


@case(
    "an operator's request is granted, and 60 seconds later another unclean election comes by itself",
    VIOLATION,
    {
        "lost-write permitted": {7, 8, 9},
        "lost-write violation": {20},
        "unclean-election permitted": SOME,
        "unclean-election violation": SOME,
    },
    also=("inconsistent-offsets permitted", "acknowledged-regression permitted"),
    why="one request allows the election it asked for, not all later ones",
)
def unclean_request_granted_once() -> HistoryBuilder:
    history = _unclean().asked_unclean("ok", at=7.5, until=8.2)
    history.ack(20, at=15, process=2)
    history.state(2, 1, (2,), at=60)
    return history.fail_over(3, kept=7, at=70, isr=(3,)).finish()


@case(
    "what an allowed unclean election lacked is read from the next leader, and a clean election loses it",
    VIOLATION,
    {"lost-write violation": {7, 8, 9}, "dirty-read violation": {7, 8, 9}},
    also=("unclean-election observation", "unclean-election permitted"),
    why="read from a leader downstream of the unclean election: that did not cost it",
)
def survived_the_unclean_election_by_a_read() -> HistoryBuilder:
    history = led(topics={"t": {UNCLEAN: "true"}}).state(1, 0, (1,), at=4)
    full = list(history.log)
    history.fault("kill", [1], at=6, until=9)
    history.state(2, 1, (2,), at=8, start=7)
    history.log = full[:7]
    history.state(1, 2, (1, 2), at=12, start=10)
    history.log = full
    history.replica(1, full, at=13, reason="heal", high_watermark=10)
    history.poll([(offset, offset) for offset in range(10)], at=14, epoch=0)
    history.state(2, 3, (2, 3), at=20, start=7)
    history.log = full[:7]
    history.truncation(1, 7, 10, epoch=3, at=22)
    return history.state(2, 3, (1, 2, 3), at=24).finish()


@case(
    "an unclean election is allowed; the one that loses the records is of an eligible leader replica",
    VIOLATION,
    {"lost-write violation": {7, 8, 9}},
    why="KIP-966: an eligible replica cannot lack what was committed",
)
def eligible_replica_lacks_records() -> HistoryBuilder:
    history = led(topics={"t": {UNCLEAN: "true", "min.insync.replicas": "2"}}).state(1, 0, (1,), at=4, elr=(2,))
    history.fault("kill", [1], at=6, until=9)
    history.state(-1, 1, (), at=7, elr=(1, 2))
    history.state(2, 2, (2,), at=8, start=7)
    history.log = history.log[:7]
    history.truncation(1, 7, 10, epoch=2, at=11)
    return history.state(2, 2, (1, 2, 3), at=12).finish()


@case(
    "partition 0 has an allowed unclean election, partition 1 loses a record by a clean one just then",
    VIOLATION,
    {"lost-write permitted": {7, 8, 9}, "unclean-election permitted": SOME, "lost-write violation": {1002}},
    why="an exception reaches no further than its partition",
)
def unclean_in_the_neighbour_partition() -> HistoryBuilder:
    history = led(topics={"t": {UNCLEAN: "true"}}).place(1, "t", 1)
    history.state(1, 0, (1, 2, 3), at=0, start=0, partition_id=1)
    for place in range(3):
        history.send(1000 + place, place, at=2 + place / 10, partition_id=1)
    _unclean(history)
    history.state(2, 1, (2, 3), at=8, start=2, partition_id=1)
    history.finish()
    for node in history.brokers:
        history.replica(node, [(0, 0, 1000), (1, 0, 1001)], high_watermark=2, partition_id=1)
    return history.final([(0, 1000), (1, 1001)], partition_id=1)


@case(
    "an unclean election loses three, allowed; of what its leader then acknowledged one vanishes without an event",
    VIOLATION,
    {
        "lost-write permitted": {7, 8, 9},
        "unclean-election permitted": SOME,
        "lost-write violation": {21},
        "inconsistent-offsets permitted": SOME,
        "acknowledged-regression permitted": SOME,
    },
    why="what was acknowledged after the election was not lost by it",
)
def lost_after_the_unclean_election() -> HistoryBuilder:
    history = _unclean(led(topics={"t": {UNCLEAN: "true"}}))
    for value in (20, 21, 22):
        history.ack(value, at=15 + value / 100, process=2)
    history.log = [entry for entry in history.log if entry[2] != 21]
    return history.finish()


@case(
    "nobody is left; the last leader comes back alone with a shorter log and leads: ISR and ELR were empty",
    VIOLATION,
    {"lost-write violation": {7, 8, 9}},
    why="electing the last known leader is no unclean election, and its disk came to no harm",
)
def last_known_leader_lacks_its_own_tail() -> HistoryBuilder:
    history = led(topics={"t": {UNCLEAN: "true"}}).state(1, 0, (1,), at=4, elr=())
    history.fault("kill", [1], at=6, until=9)
    history.state(-1, 1, (), at=7, elr=())
    history.state(1, 2, (1,), at=10, start=7, elr=())
    history.log = history.log[:7]
    return history.finish(only=(1,))


@case(
    "nothing tells where the log of an allowed, uncleanly elected leader ended, and nobody's disk was read",
    (OPEN, PASS),
    also=(
        "unclean-election observation",
        "unclean-election permitted",
        "lost-write observation",
        "lost-write permitted",
    ),
    why="unsure: an unknown log end leads to undecided; but the end at which the final read ended bounds it",
)
def unclean_election_with_an_unknown_log_end() -> HistoryBuilder:
    history = led(6, topics={"t": {UNCLEAN: "true"}}).state(1, 0, (1,), at=4)
    history.fault("kill", [1], at=6)
    history.state(2, 1, (2,), at=8)
    history.log = history.log[:5]
    return history.finish(snapshots=False)


@case(
    "an allowed unclean election with an unknown log end; later records of its epoch and earlier ones survive, "
    "one between is gone",
    VIOLATION,
    {"lost-write violation": {3}},
    also=("unclean-election observation",),
    why="records 4 to 6 of epoch 0 survive in the leader's log above it: the election did not cost record 3",
)
def hole_below_what_the_unclean_leader_had() -> HistoryBuilder:
    history = led(7, topics={"t": {UNCLEAN: "true"}}).state(1, 0, (1,), at=4)
    history.fail_over(2, kept=7, isr=(2,), journalled=False)
    history.log = [entry for entry in history.log if entry[2] != 3]
    return history.finish()


@case(
    "a value whose first try an allowed unclean election cut is sent again, acknowledged, and lost by a clean one",
    VIOLATION,
    {"lost-write violation": {50}},
    also=("unclean-election observation", "unclean-election permitted"),
    why="the acknowledged copy is judged: offset 7 in epoch 1, and the clean election of epoch 2 took it",
)
def retry_after_the_unclean_election_lost_by_a_clean_one() -> HistoryBuilder:
    history = led(7, topics={"t": {UNCLEAN: "true"}}).state(1, 0, (1,), at=4)
    history.log.append((7, 0, 50))
    history.send(50, 7, at=5.5, elapsed_s=6.5)
    history.failed_attempt(at=6.1)
    history.fail_over(2, kept=7, isr=(2,))
    history.log.append((7, 1, 50))
    return history.fail_over(3, kept=7, at=30).finish()


@case(
    "the books say nothing of an ISR before the first state, in which broker 2 leads epoch 5",
    PASS,
    why="a first state is no election",
)
def a_history_that_begins_in_epoch_five() -> HistoryBuilder:
    history = HistoryBuilder().state(2, 5, (2,), at=0, start=0)
    for value in range(4):
        history.ack(value, at=1 + value)
    return history.finish(only=(2,))
