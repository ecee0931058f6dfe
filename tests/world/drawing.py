"""What a history is drawn as: from a seed a cluster, its clients, a storyline, perhaps a flaw. Each world has a
drawing of its own, so that a seed stays the same history whatever another world is given.
"""

from collections.abc import Callable, Mapping
from random import Random

from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.world.ends import WAYS
from tests.world.storylines import BASIC, STORYLINES
from tests.world.world import InFlight, Processing, Setup, Topic

RECORDS, TRANSACTIONS, GROUPS, SETTINGS = "records", "transactions", "groups", "settings"
IN_FLIGHT, PROCESSING, ENDS = "in-flight", "processing", "ends"
CLEANING = "cleaning"

# A flaw, and the storylines in which it can show.
FLAWS: dict[str, tuple[str, ...]] = {
    "acknowledge-early": ("cut-short-then-dies", "leader-dies", "zombie", "alone-then-dies", "mixed"),
    "high-watermark-early": ("cut-short-then-dies", "leader-dies", "alone-then-dies"),
    "join-early": ("followers-die", "alone-then-dies", "everyone-dies", "survives-unclean", "one-disk"),
    "truncate-to-high-watermark": ("leader-dies", "everyone-dies", "quick-restart", "survives-unclean", "mixed"),
    "truncate-at-start": ("leader-dies", "everyone-dies", "quick-restart", "mixed"),
    "drop-at-start": ("leader-dies", "everyone-dies", "quick-restart", "one-disk", "survives-unclean", "mixed"),
    "drop-while-leading": (
        "calm",
        "leader-dies",
        "one-disk",
        "alone-then-dies",
        "survives-unclean",
        "zombie",
        "power",
        "retried",
        "last-in-sync-disk",
        "removal",
    ),
    "unclean-forbidden": ("alone-then-dies", "everyone-dies", "last-in-sync-disk", "mixed"),
    "unclean-needlessly": ("followers-die", "leader-dies", "alone-then-dies", "survives-unclean"),
    "two-leaders": ("zombie", "paused", "cut-from-controller"),
    "acknowledge-below-minimum": ("followers-die", "alone-then-dies", "everyone-dies"),
    "directory-not-noticed": ("quick-restart", "disks-in-turn", "one-disk"),
    "damage-takes-neighbour": ("one-batch", "last-in-sync-disk"),
}


def drawn(seed: int) -> Setup:
    """Four in ten histories are of a sound system."""
    random = Random(seed)
    flaw = random.choice(tuple(FLAWS)) if random.random() < 0.6 else None
    storyline = random.choice(tuple(STORYLINES) if flaw is None else FLAWS[flaw])
    brokers = tuple(range(1, 1 + random.choice((2, 3, 3, 3, 4, 5))))
    topics = []
    for place in range(random.choice((1, 1, 1, 2))):
        layout = []
        for _ in range(random.choice((1, 1, 2, 3) if place == 0 else (1,))):
            count = min(len(brokers), random.choice((2, 3, 3)))
            layout.append(tuple(random.sample(brokers, count)))
        topics.append(
            Topic(
                name=("orders", "other")[place],
                layout=tuple(layout),
                min_in_sync=random.choice((1, 1, 2)),
                unclean_allowed=random.random() < (0.1 if flaw == "unclean-forbidden" else 0.45),
            )
        )
    acks = tuple(random.choice((-1, -1, -1, 1, 1, 0)) for _ in range(random.choice((1, 2, 2))))
    sure = all(each == -1 for each in acks)  # idempotence needs acks=all
    return Setup(
        seed=seed,
        storyline=storyline,
        brokers=brokers,
        topics=tuple(topics),
        flaws=frozenset({flaw} if flaw else ()),
        bad_answers=random.choice((0.0, 0.0, 0.05, 0.25)),
        retries=random.random() < 0.8,
        acks=acks,
        tick_ms=random.choice(((60, 150), (60, 150), (150, 400))),
        idempotent=sure and random.random() < 0.7,
    )


# ---- transactions ---------------------------------------------------------------------------------------------------

# DeleteRecords within an open transaction is not played: what it leaves of its first offset is not modelled.
_WITH_TRANSACTIONS = tuple(storyline for storyline in STORYLINES if storyline != "removal")
_LEADERS_FALL = ("leader-dies", "zombie", "paused", "cut-from-controller", "quick-restart", "retried", "everyone-dies")
# What a system with transactions does although no Kafka must, and the storylines in which it can show.
TRANSACTION_FLAWS: Mapping[str, tuple[str, ...]] = {
    "aborted-delivered": ("calm", *_LEADERS_FALL),
    "stable-offset-passed": ("calm", *_LEADERS_FALL),
    "fencing-forgotten": ("calm", *_LEADERS_FALL),
    "commit-after-timeout": ("calm", *_LEADERS_FALL),
    "marker-reversed": ("calm", *_LEADERS_FALL),
    "marker-forgotten": ("calm", *_LEADERS_FALL),
    "late-produce": ("calm", *_LEADERS_FALL),
    "coordinator-drops": ("leader-dies", "everyone-dies", "quick-restart", "mixed"),
    "unclean-forbidden": ("alone-then-dies", "everyone-dies", "last-in-sync-disk", "mixed"),
}


def drawn_with_transactions(seed: int) -> Setup:
    """Half of the histories are of a sound system."""
    random = Random(f"transactions {seed}")
    flaw = random.choice(tuple(TRANSACTION_FLAWS)) if random.random() < 0.5 else None
    storyline = random.choice(_WITH_TRANSACTIONS if flaw is None else TRANSACTION_FLAWS[flaw])
    brokers = tuple(range(1, 1 + random.choice((3, 3, 4))))
    layout = tuple(tuple(random.sample(brokers, random.choice((2, 3, 3)))) for _ in range(random.choice((2, 2, 3))))
    unclean = random.random() < (0.1 if flaw == "unclean-forbidden" else 0.3)
    topic = Topic(name="orders", layout=layout, min_in_sync=random.choice((1, 1, 2)), unclean_allowed=unclean)
    states = Topic(
        name=TRANSACTIONS_TOPIC,
        layout=(tuple(random.sample(brokers, random.choice((1, 3, 3, 3)))),),
        unclean_allowed=random.random() < 0.2,
        internal=True,
    )
    return Setup(
        seed=seed,
        storyline=storyline,
        brokers=brokers,
        topics=(topic, states),
        flaws=frozenset({flaw} if flaw else ()),
        bad_answers=random.choice((0.0, 0.0, 0.05, 0.2)),
        acks=(-1,) * random.choice((0, 1)),
        transactional_ids=("pay-1", "pay-2")[: random.choice((1, 2, 2))],
        consumers=random.choice((("read_committed",), ("read_committed", "read_uncommitted"))),
    )


# ---- groups ---------------------------------------------------------------------------------------------------------

# What a coordinator of groups does although no Kafka must, and the storylines in which it can show.
GROUP_FLAWS: Mapping[str, tuple[str, ...]] = {
    "offsets-forgotten": _LEADERS_FALL,
    "fetch-stale": ("calm", *_LEADERS_FALL),
    "zombie-let-in": ("calm", *_LEADERS_FALL),
    "two-owners": ("calm", *_LEADERS_FALL),
    "coordinator-drops": ("leader-dies", "everyone-dies", "quick-restart", "mixed"),
    "unclean-forbidden": ("alone-then-dies", "everyone-dies", "last-in-sync-disk", "mixed"),
}


def drawn_with_groups(seed: int) -> Setup:
    """Half of the histories are of a sound system."""
    random = Random(f"groups {seed}")
    flaw = random.choice(tuple(GROUP_FLAWS)) if random.random() < 0.5 else None
    storyline = random.choice(tuple(STORYLINES) if flaw is None else GROUP_FLAWS[flaw])
    brokers = tuple(range(1, 1 + random.choice((3, 3, 4))))
    layout = tuple(tuple(random.sample(brokers, random.choice((2, 3, 3)))) for _ in range(random.choice((2, 3))))
    unclean = random.random() < (0.1 if flaw == "unclean-forbidden" else 0.3)
    topic = Topic(name="orders", layout=layout, min_in_sync=random.choice((1, 1, 2)), unclean_allowed=unclean)
    offsets = Topic(
        name=GROUP_OFFSETS_TOPIC,
        layout=(tuple(random.sample(brokers, random.choice((1, 2, 3, 3)))),),
        unclean_allowed=random.random() < (0.1 if flaw == "unclean-forbidden" else 0.3),
        internal=True,
    )
    return Setup(
        seed=seed,
        storyline=storyline,
        brokers=brokers,
        topics=(topic, offsets),
        flaws=frozenset({flaw} if flaw else ()),
        bad_answers=random.choice((0.0, 0.0, 0.05, 0.2)),
        acks=(-1,) * random.choice((1, 2)),
        members=random.choice((1, 2, 2, 3)),
        consumers=(),
    )


# ---- settings, and eras of defaults ---------------------------------------------------------------------------------

# Releases of three eras: unclean elections are allowed by default before 0.11 (KIP-106).
RELEASES_BEFORE_EPOCHS = ("0.9.0.1", "0.10.2.2")
_ERAS = (*RELEASES_BEFORE_EPOCHS, "1.1.1", "2.8.2", "4.3.1", "")
SETTINGS_FLAWS: Mapping[str, tuple[str, ...]] = {
    "retention-unasked": ("calm", "leader-dies", "paused", "zombie"),
    "acknowledge-below-minimum": ("followers-die", "alone-then-dies", "everyone-dies"),
    "unclean-forbidden": ("alone-then-dies", "everyone-dies", "last-in-sync-disk"),
    "acknowledge-early": ("cut-short-then-dies", "leader-dies", "zombie", "alone-then-dies"),
}


def drawn_with_settings(seed: int) -> Setup:
    """Half of the histories are of a sound system. What a topic does not state itself, its release's default says."""
    random = Random(f"settings {seed}")
    release = random.choice(_ERAS)
    flaws = [flaw for flaw in SETTINGS_FLAWS if flaw != "unclean-forbidden" or release not in RELEASES_BEFORE_EPOCHS]
    flaw = random.choice(flaws) if random.random() < 0.5 else None
    storyline = random.choice(tuple(BASIC) if flaw is None else SETTINGS_FLAWS[flaw])
    brokers = tuple(range(1, 1 + random.choice((3, 3, 4))))
    layout = tuple(tuple(random.sample(brokers, random.choice((2, 3, 3)))) for _ in range(random.choice((1, 2))))
    stated = random.choice((True, None, None))
    by_default = release in RELEASES_BEFORE_EPOCHS
    allowed = by_default if stated is None else random.random() < 0.5 and flaw != "unclean-forbidden"
    topic = Topic(
        name="orders",
        layout=layout,
        min_in_sync=random.choice((1, 2)),
        unclean_allowed=allowed,
        unclean_stated=stated is not None,
    )
    acks = tuple(random.choice((-1, -1, 1)) for _ in range(random.choice((1, 2))))
    return Setup(
        seed=seed,
        storyline=storyline,
        brokers=brokers,
        topics=(topic,),
        flaws=frozenset({flaw} if flaw else ()),
        bad_answers=random.choice((0.0, 0.0, 0.1)),
        acks=acks,
        settings_change=True,
        release=release,
        idempotent=all(each == -1 for each in acks) and random.random() < 0.7,
    )


# ---- several sends under way ----------------------------------------------------------------------------------------

_IDEMPOTENT_FLAWS = ("sequence-unchecked", "sequence-forgotten")
IN_FLIGHT_FLAWS: Mapping[str, tuple[str, ...]] = {
    "sequence-unchecked": ("calm", "retried", *_LEADERS_FALL),
    "sequence-forgotten": ("calm", "retried", *_LEADERS_FALL),
    "requests-swapped": ("calm", "calm", "leader-dies", "paused"),
    "drop-while-leading": ("calm", "leader-dies", "zombie"),
    "unclean-forbidden": ("alone-then-dies", "everyone-dies", "last-in-sync-disk"),
}


def drawn_in_flight(seed: int) -> Setup:
    """Half of the histories are of a sound system, and half of the producers are idempotent."""
    random = Random(f"in flight {seed}")
    flaw = random.choice(tuple(IN_FLIGHT_FLAWS)) if random.random() < 0.5 else None
    storyline = random.choice(tuple(BASIC) if flaw is None else IN_FLIGHT_FLAWS[flaw])
    swapped = flaw == "requests-swapped"
    idempotent = flaw in _IDEMPOTENT_FLAWS or random.random() < (0.3 if swapped else 0.5)
    brokers = tuple(range(1, 1 + random.choice((3, 3, 4))))
    layout = tuple(tuple(random.sample(brokers, random.choice((2, 3, 3)))) for _ in range(random.choice((1, 1, 2))))
    unclean = random.random() < (0.1 if flaw == "unclean-forbidden" else 0.35)
    topic = Topic(name="orders", layout=layout, min_in_sync=random.choice((1, 1, 2)), unclean_allowed=unclean)
    acks = tuple(-1 if idempotent else random.choice((-1, -1, 1)) for _ in range(random.choice((1, 1, 2))))
    quiet = swapped and random.random() < 0.7  # nothing is sent again that could be taken for the reason
    return Setup(
        seed=seed,
        storyline=storyline,
        brokers=brokers,
        topics=(topic,),
        flaws=frozenset({flaw} if flaw else ()),
        bad_answers=0.0 if quiet else random.choice((0.0, 0.05, 0.2)),
        acks=acks,
        idempotent=idempotent,
        in_flight=InFlight(
            tasks=random.choice((0, 0, 1, 3)),
            depth=random.choice((5, 5, 3)),
            spoiled=0.0 if quiet else random.choice((0.0, 0.05)),
        ),
    )


# ---- offsets in transactions ----------------------------------------------------------------------------------------

# Releases with transactions, whether they have stable offsets, and whether a marker is acknowledged too early.
_OF_OFFSETS = (("1.1.1", False, True), ("2.8.2", True, True), ("2.8.2", False, True), ("4.3.1", True, False))
PROCESSING_FLAWS: Mapping[str, tuple[str, ...]] = {
    "aborted-offset-applied": ("calm", *_LEADERS_FALL),
    "offset-not-applied": ("calm", *_LEADERS_FALL),
    "stable-ignored": ("calm", *_LEADERS_FALL),
    "order-of-markers": ("calm", *_LEADERS_FALL),
    "coordinator-drops": ("leader-dies", "everyone-dies", "quick-restart", "mixed"),
    "unclean-forbidden": ("alone-then-dies", "everyone-dies", "last-in-sync-disk"),
}


def drawn_with_processing(seed: int) -> Setup:
    """Half of the histories are of a sound system."""
    random = Random(f"processing {seed}")
    flaw = random.choice(tuple(PROCESSING_FLAWS)) if random.random() < 0.5 else None
    storyline = random.choice(_WITH_TRANSACTIONS if flaw is None else PROCESSING_FLAWS[flaw])
    release, stable, late = random.choice(_OF_OFFSETS[1:] if flaw == "stable-ignored" else _OF_OFFSETS)
    brokers = tuple(range(1, 1 + random.choice((3, 3, 4))))
    layout = tuple(tuple(random.sample(brokers, random.choice((2, 3, 3)))) for _ in range(2))
    inputs = Topic(name="orders", layout=layout, min_in_sync=random.choice((1, 1, 2)))
    outputs = Topic(name="results", layout=layout[: random.choice((1, 2))], min_in_sync=1)
    internal = [
        Topic(
            name=name,
            layout=(tuple(random.sample(brokers, random.choice((1, 2, 3, 3)))),),
            unclean_allowed=random.random() < (0.1 if flaw == "unclean-forbidden" else 0.45),
            internal=True,
        )
        for name in (TRANSACTIONS_TOPIC, GROUP_OFFSETS_TOPIC)
    ]
    return Setup(
        seed=seed,
        storyline=storyline,
        brokers=brokers,
        topics=(inputs, outputs, *internal),
        flaws=frozenset({flaw} if flaw else ()),
        bad_answers=random.choice((0.0, 0.0, 0.05, 0.2)),
        acks=(-1,),
        release=release,
        tick_ms=(20, 60),
        load_ns=12_000_000_000,
        transactional_ids=("readers-1", "readers-2")[: random.choice((1, 2))],
        processing=Processing(
            stable=stable,
            applied_late=late,
            plain=flaw == "order-of-markers" or random.random() < 0.4,
            markers_wait=random.choice((0.0, 0.2, 0.5)),
        ),
        consumers=random.choice((("read_committed",), ("read_committed", "read_uncommitted"))),
    )


# ---- nodes that end by themselves -----------------------------------------------------------------------------------

_BESIDE_ENDS = ("calm", "calm", "calm", "leader-dies", "paused", "zombie", "one-disk", "frozen", "retried")


def drawn_with_ends(seed: int) -> Setup:
    """Of releases with a coordination service of its own, so that it is known which node that is."""
    random = Random(f"ends {seed}")
    brokers = tuple(range(1, 1 + random.choice((3, 3, 4))))
    layout = tuple(tuple(random.sample(brokers, random.choice((2, 3, 3)))) for _ in range(random.choice((1, 2))))
    release = random.choice(("1.1.1", "2.8.2"))
    topic = Topic(
        name="orders",
        layout=layout,
        min_in_sync=random.choice((1, 1, 2)),
        unclean_allowed=random.random() < 0.3,
        unclean_stated=True,
    )
    acks = tuple(random.choice((-1, -1, 1)) for _ in range(random.choice((1, 2))))
    return Setup(
        seed=seed,
        storyline=random.choice(_BESIDE_ENDS),
        brokers=brokers,
        topics=(topic,),
        bad_answers=random.choice((0.0, 0.0, 0.0, 0.1)),
        acks=acks,
        release=release,
        idempotent=all(each == -1 for each in acks) and random.random() < 0.7,
        ends=random.choice(WAYS),
    )


# ---- cleanup.policy over time ---------------------------------------------------------------------------------------

_POLICIES = (
    ("delete", "compact", "delete"),
    ("compact", "delete"),
    ("delete", "compact,delete", "delete"),
    ("compact",),
    ("delete",),
)
CLEANING_FLAWS: Mapping[str, tuple[str, ...]] = {
    "compact-last": ("calm", "leader-dies", "paused", "zombie"),
    "compact-unasked": ("calm", "leader-dies", "paused", "zombie"),
    "acknowledge-below-minimum": ("followers-die", "alone-then-dies", "everyone-dies"),
    "unclean-forbidden": ("alone-then-dies", "everyone-dies", "last-in-sync-disk"),
}


def drawn_with_cleaning(seed: int) -> Setup:
    """Half of the histories are of a sound system."""
    random = Random(f"cleaning {seed}")
    flaw = random.choice(tuple(CLEANING_FLAWS)) if random.random() < 0.5 else None
    storyline = random.choice(tuple(BASIC) if flaw is None else CLEANING_FLAWS[flaw])
    brokers = tuple(range(1, 1 + random.choice((3, 3, 4))))
    layout = tuple(tuple(random.sample(brokers, random.choice((2, 3, 3)))) for _ in range(random.choice((1, 2))))
    policies = random.choice(_POLICIES[:4])
    if flaw == "compact-unasked":
        policies = _POLICIES[-1]
    topic = Topic(
        name="orders",
        layout=layout,
        min_in_sync=random.choice((1, 2)),
        unclean_allowed=random.random() < (0.1 if flaw == "unclean-forbidden" else 0.3),
        unclean_stated=True,
    )
    return Setup(
        seed=seed,
        storyline=storyline,
        brokers=brokers,
        topics=(topic,),
        flaws=frozenset({flaw} if flaw else ()),
        bad_answers=random.choice((0.0, 0.0, 0.1)),
        acks=tuple(random.choice((-1, -1, -1, 1)) for _ in range(2)),
        idempotent=False,
        release=random.choice(("2.8.2", "4.3.1")),
        settings_change=True,
        policies=policies,
    )


DRAWN: Mapping[str, Callable[[int], Setup]] = {
    RECORDS: drawn,
    TRANSACTIONS: drawn_with_transactions,
    GROUPS: drawn_with_groups,
    SETTINGS: drawn_with_settings,
    IN_FLIGHT: drawn_in_flight,
    PROCESSING: drawn_with_processing,
    ENDS: drawn_with_ends,
    CLEANING: drawn_with_cleaning,
}
