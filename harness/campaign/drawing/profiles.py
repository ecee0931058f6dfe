"""What a campaign looks for: each profile says which faults it draws, how often, and under which load."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.errors import UsageError, nearest


@dataclass(frozen=True, kw_only=True)
class Profile:
    """faults: kind -> how often it is drawn beside the others, times the fault's own weight; one that weighs nothing is
    drawn only where it is named. {}: every kind there is.

    duration_s: between which lengths the load is drawn. sequences: how many a run has, one after the other; each is a
    fault, a pair or a chain. linked_share: of the sequences, those in which a fault follows from what the one
    before brings about. libraries_share: of the runs, those with another client library than kafka-python. workloads:
    name -> how often.
    """

    name: str
    says: str
    faults: Mapping[str, float] = field(default_factory=dict)
    duration_s: tuple[float, float] = (18.0, 26.0)
    sequences: tuple[int, int] = (4, 6)
    linked_share: float = 0.8
    libraries_share: float = 0.15
    workloads: Mapping[str, float] = field(default_factory=lambda: {"produce_and_poll": 1.0})
    retention_share: float = 0.15
    compaction_share: float = 0.0  # of the runs without a group, those whose topic compacts
    replies_share: float = 0.35  # runs in which clients lose answers now and then, so that they try again
    slow_every: int = 4  # in one run of so many, links between brokers are slow all the while; 0: in none
    every_replica_share: float = 0.15  # runs that are read again from every replica


_PROCESSES = {"kill": 4.0, "restart": 2.0, "pause": 3.0, "stop": 1.0, "rolling-restart": 0.3}
_LINKS = {"isolate": 6.0, "hold-fetches": 2.0, "slow": 1.5, "halves": 0.7, "majority-ring": 0.4, "bridge": 0.4}

_ALL = (
    Profile(
        name="quick",
        says="short runs of one or two faults each: a first look",
        faults={"kill": 2.0, "restart": 2.0, "pause": 2.0, "isolate": 2.0, "hold-fetches": 1.0},
        duration_s=(8.0, 12.0),
        sequences=(1, 2),
        libraries_share=0.0,
        retention_share=0.0,
        every_replica_share=0.0,
        slow_every=0,
    ),
    Profile(
        name="replication",
        says="what keeps committed records: leaders, followers and their logs, with restarts, power loss and retries",
        faults={
            **_PROCESSES,
            **_LINKS,
            "power-loss": 3.0,
            "preferred-election": 1.5,
            "unclean-election": 1.0,
            "wipe": 0.3,
        },
    ),
    Profile(
        name="requests",
        says="one kind of request held or lost, and faults that strike while one is under way (simulated world)",
        faults={
            "hold-requests": 8.0,
            "lose-requests": 2.0,
            "power-off": 2.0,
            "kill-at-write": 1.0,
            "kill": 4.0,
            "restart": 2.0,
            "pause": 3.0,
            "isolate": 5.0,
            "preferred-election": 1.5,
        },
        linked_share=0.9,
    ),
    Profile(
        name="elections",
        says="leaders and controllers that come and go, preferred and unclean elections, changed settings",
        faults={
            "kill": 3.0,
            "stop": 2.0,
            "restart": 2.0,
            "pause": 3.0,
            "rolling-restart": 0.5,
            "isolate": 4.0,
            "halves": 1.0,
            "preferred-election": 4.0,
            "unclean-election": 3.0,
            "reconfigure": 1.5,
        },
        linked_share=0.85,
    ),
    Profile(
        name="storage",
        says="disks: lost tails, wiped and damaged logs, small segments, retention",
        faults={
            "kill": 2.0,
            "restart": 3.0,
            "stop": 1.0,
            "power-loss": 4.0,
            "wipe": 1.5,
            "damage": 1.5,
            "fill": 1.0,
            "hold-fetches": 1.5,
        },
        retention_share=0.6,
        replies_share=0.15,
        every_replica_share=0.3,
    ),
    Profile(
        name="clients",
        says="what clients live through: lost answers, retries, groups and transactions, several libraries",
        faults={"isolate": 6.0, "kill": 2.0, "restart": 1.0, "pause": 2.0, "slow": 2.0, "impair": 1.0, "stop": 1.0},
        libraries_share=0.6,
        workloads={"produce_and_poll": 2.0, "consumer_groups": 1.0, "transactions": 1.0},
        compaction_share=0.3,
        replies_share=0.9,
    ),
    Profile(
        name="everything",
        says="every fault there is, those of installed packages too, under every load",
        workloads={"produce_and_poll": 3.0, "consumer_groups": 1.0, "transactions": 1.0},
        libraries_share=0.3,
        retention_share=0.3,
        compaction_share=0.3,
    ),
)

PROFILES: Mapping[str, Profile] = {profile.name: profile for profile in _ALL}


def profiles() -> tuple[str, ...]:
    return tuple(PROFILES)


def profile(name: str) -> Profile:
    """Raises UsageError with the nearest name."""
    if name not in PROFILES:
        raise UsageError(f"unknown profile {name!r}; {nearest(name, profiles())}")
    return PROFILES[name]
