"""What differs from release to release: epochs, high watermarks below the minimum, eligible leader replicas."""

from tests.outsiders.history_builder import PASS, REWOUND, SOME, VIOLATION, HistoryBuilder, case, led

UNCLEAN = "unclean.leader.election.enable"
TWO = {"min.insync.replicas": "2"}


def _tail_before_epochs(acks: int) -> HistoryBuilder:
    """Kafka 0.10.2: the logs have no epochs. A clean fail-over to 2, whose log ended at 7, and new records there."""
    history = led(0, system="kafka:0.10.2.2", settings={UNCLEAN: "false"})
    for value in range(10):
        history.send(value, value, at=1 + value / 10, acks=acks if value >= 7 else -1)
    history.log = [(value, -1, value) for value in range(7)]
    history.fault("kill", [1], at=6, until=9)
    history.state(2, 1, (2, 3), at=8)
    for number in range(3):
        history.send(20 + number, 7 + number, at=12 + number, process=2)
        history.log.append((7 + number, -1, 20 + number))
    history.started(1, at=9)
    return history.state(2, 1, (1, 2, 3), at=11).finish()


@case(
    "Kafka 0.10.2, no epochs in any log: an acks=1 tail goes with a clean fail-over, and others take its place",
    PASS,
    {"lost-write permitted": {7, 8, 9}},
    also=REWOUND["permitted"],
    why="acks=1 promises nothing about a change of leaders, in any age",
)
def acks_1_before_epochs() -> HistoryBuilder:
    return _tail_before_epochs(1)


@case(
    "the same of a tail by all",
    VIOLATION,
    {"lost-write violation": {7, 8, 9}},
    also=REWOUND["violation"],
    why="KIP-101's fault is a fault: every replica in sync had them",
)
def acks_all_before_epochs() -> HistoryBuilder:
    return _tail_before_epochs(-1)


def _alone_below_the_minimum(system: str) -> HistoryBuilder:
    """min.insync.replicas=2. The leader alone in sync takes two with acks=1; a consumer is given them; the leader dies,
    and a replica out of sync is elected, which the topic allows."""
    history = led(8, system=system, settings=TWO).unclean_config("true")
    history.state(1, 0, (1,), at=5)
    for value in (8, 9):
        history.ack(value, at=6 + value / 100, acks=1)
    history.client(9, role="consumer", isolation="read_uncommitted", offset_reset="earliest")
    history.poll([(offset, offset) for offset in range(10)], at=8)
    history.replica(1, history.log, at=10, reason="kill", high_watermark=10)
    history.fault("kill", [1], at=10, until=20)
    history.state(-1, 1, (1,), at=11)
    history.state(2, 2, (2,), at=12, start=8)
    history.log = history.log[:8]
    history.started(1, at=20)
    history.truncation(1, 8, 10, epoch=2, at=21)
    return history.state(2, 2, (1, 2, 3), at=22).finish()


@case(
    "Kafka 1.1: a consumer is given acks=1 records of a leader alone, below the minimum; an allowed unclean election "
    "gives them up",
    PASS,
    {
        "lost-write permitted": {8, 9},
        "dirty-read permitted": {8, 9},
        "unclean-election permitted": SOME,
    },
    also=[*REWOUND["permitted"], "nonmonotonic-read permitted"],
    why="before KIP-966 the high watermark followed an ISR of any size",
)
def read_below_the_minimum_of_old() -> HistoryBuilder:
    return _alone_below_the_minimum("kafka:1.1.1")


def _eligible(*, wiped: bool, acks: int = -1) -> HistoryBuilder:
    """Kafka 4.3, minimum 2. 3 and then 2 leave the ISR; 2 stays eligible; 1 takes 10 and 11 (acks=1) alone, and is
    killed; 2, whose disk was perhaps wiped before, is elected from the eligible ones."""
    history = led(10, system="kafka:4.3.1", settings=TWO).state(1, 0, (1, 2), at=4, elr=())
    history.state(1, 0, (1,), at=6, elr=(2,))
    for value in (10, 11):
        history.ack(value, at=7 + value / 100, acks=1)
    if wiped:
        history.destroyed("wipe", 2, "disk", at=8, until=9)
        history.started(2, at=9)
    history.replica(1, history.log, at=10, reason="kill", high_watermark=10)
    history.fault("kill", [1], at=10, until=30)
    history.state(-1, 1, (), at=11, elr=(1, 2))
    kept = 0 if wiped else 10
    history.state(2, 2, (2,), at=12, start=kept, elr=(1,))
    history.log = history.log[:kept]
    for value in (20, 21):
        history.ack(value, at=20 + value / 100, acks=1)
    history.started(1, at=30)
    history.truncation(1, kept, 12, epoch=2, at=31)
    return history.state(2, 2, (1, 2, 3), at=32, elr=()).finish()


@case(
    "Kafka 4.3: an eligible leader replica is elected; what the leader before took alone with acks=1 below the minimum "
    "is gone",
    PASS,
    {"lost-write permitted": {10, 11}},
    also=REWOUND["permitted"],
    why="KIP-966: it cannot lack what was committed, and these two were not",
)
def eligible_leader_without_an_acks_1_tail() -> HistoryBuilder:
    return _eligible(wiped=False)


@case(
    "the same, and the eligible one's disk had been wiped while it was eligible: it is elected with nothing",
    VIOLATION,
    {"lost-write violation": set(range(10)), "lost-write permitted": {10, 11}},
    also=[*REWOUND["violation"], *REWOUND["permitted"]],
    why="KIP-966: whoever had an unclean shutdown is eligible no more; broker 1 had all of it",
)
def eligible_leader_with_an_empty_disk() -> HistoryBuilder:
    return _eligible(wiped=True)


@case(
    "Kafka 4.3: ISR and eligible replicas are empty; somebody else than the last leader is elected, which "
    "nothing allows",
    VIOLATION,
    {"unclean-election violation": SOME},
    why="KIP-966 excepts the last known leader alone",
)
def elected_though_not_the_last_known_leader() -> HistoryBuilder:
    history = led(10, system="kafka:4.3.1", settings=TWO).state(1, 0, (1,), at=6, elr=())
    history.fault("kill", [1], at=10, until=30)
    history.state(-1, 1, (), at=11, elr=())
    history.state(3, 2, (3,), at=12, start=10, elr=())
    history.started(1, at=30)
    return history.state(3, 2, (1, 2, 3), at=32, elr=()).finish()


@case(
    "Kafka 4.3: the topic's setting is changed to allow unclean elections, and one comes four minutes later",
    PASS,
    {"unclean-election permitted": SOME, "lost-write permitted": {8, 9}},
    also=REWOUND["permitted"],
    why="the controller looks every five minutes; what it does then is allowed",
)
def allowed_four_minutes_before() -> HistoryBuilder:
    history = led(8, system="kafka:4.3.1").state(1, 0, (1,), at=5, elr=())
    for value in (8, 9):
        history.ack(value, at=6 + value / 100)
    history.fault("kill", [1], at=10, until=400)
    history.replica(1, history.log, at=10, reason="kill", high_watermark=10)
    history.state(-1, 1, (1,), at=11, elr=())
    history.configured(UNCLEAN, "true", at=20)
    history.state(2, 2, (2,), at=260, start=8, elr=())
    history.log = history.log[:8]
    history.started(1, at=400)
    history.truncation(1, 8, 10, epoch=2, at=401)
    history.state(2, 2, (1, 2, 3), at=402, elr=())
    for node in history.brokers:
        history.replica(node, history.log, at=410, high_watermark=8)
    return history.final([(offset, value) for offset, _, value in history.log], at=420)
