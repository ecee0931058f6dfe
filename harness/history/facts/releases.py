"""Kafka's defaults, by release: what holds where neither a setting nor the brokers' own words say anything.

Each default that changed has a row for every era, with its source. A release that is not known counts as a new one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

Release = tuple[int, ...]
NEWEST: Release = (2**31,)
_OF_KAFKA = re.compile(r"kafka:(\d+(?:\.\d+)*)(?:-[\w.-]+)?")
_WEEK_MS, _DAY_MS = str(7 * 24 * 3600 * 1000), str(24 * 3600 * 1000)
# From here on the offsets of a group expire only after its last member has left it (KIP-211).
GROUPS_KEEP_THEIR_OFFSETS: Release = (2, 1)
# From here on a follower never falls back on its high watermark where its leader knows epochs (KIP-279).
FOLLOWERS_CUT_BY_EPOCHS: Release = (2, 0)
# From here on a follower whose log is longer than its leader's cuts it, and its broker goes on (KAFKA-7414).
FOLLOWERS_NEVER_HALT: Release = (2, 1)
# From here on a group without members is kept as long as its offsets are (KAFKA-2720).
EMPTY_GROUPS_ARE_KEPT: Release = (0, 10, 1)
# From here on (no later: seen on this one) a leader's log says why its start was moved, and for whom.
LOG_STARTS_ARE_EXPLAINED: Release = (2, 8)
# From here on an offset that is sent to a transaction may name its member and generation (KIP-447).
TRANSACTIONS_NAME_MEMBERS: Release = (2, 5)
# From here on (no later: KIP-966 demands it) no high watermark moves while fewer than min.insync.replicas are in sync.
HIGH_WATERMARKS_WAIT_FOR_ENOUGH: Release = (4, 0)
# From here on a member may commit with an older epoch of its own, if it had the partition by then (KIP-1251).
OLDER_EPOCHS_COMMIT: Release = (4, 3)


@dataclass(frozen=True, kw_only=True)
class Default:
    """value: up to, and without, the release `before`; the last row of a key has none. source: who changed it."""

    value: str
    before: Release | None = None
    source: str = ""


DEFAULTS: Mapping[str, tuple[Default, ...]] = {
    "unclean.leader.election.enable": (
        Default(value="true", before=(0, 11), source="KIP-106"),
        Default(value="false"),
    ),
    "offsets.retention.minutes": (
        Default(value="1440", before=(2, 0), source="KIP-186"),
        Default(value="10080"),
    ),
    "offsets.retention.check.interval.ms": (Default(value="600000"),),
    "transaction.max.timeout.ms": (Default(value="900000"),),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (
        Default(value="60000", before=(2, 8), source="ran 1.1.1 and 2.8.2"),
        Default(value="10000"),
    ),
    # Unknown before; since then a leader asks the coordinator before it appends to a transaction.
    "transaction.partition.verification.enable": (
        Default(value="false", before=(3, 6), source="KIP-890"),
        Default(value="true"),
    ),
    "group.min.session.timeout.ms": (Default(value="6000"),),
    "group.consumer.session.timeout.ms": (Default(value="45000"),),
    "offsets.topic.num.partitions": (Default(value="50"),),
    "transaction.state.log.num.partitions": (Default(value="50"),),
    "min.insync.replicas": (Default(value="1"),),
    "cleanup.policy": (Default(value="delete"),),
    "retention.ms": (Default(value=_WEEK_MS),),
    "retention.bytes": (Default(value="-1"),),
    "delete.retention.ms": (Default(value=_DAY_MS),),
    "min.compaction.lag.ms": (Default(value="0"),),
    "message.timestamp.type": (Default(value="CreateTime"),),
}


def release_of(system: str) -> Release | None:
    """The release that a scenario's system names, (4, 3, 1) of "kafka:4.3.1"; None where its name does not say it."""
    named = _OF_KAFKA.fullmatch(system)
    return None if named is None else tuple(map(int, named[1].split(".")))


def or_newest(release: Release | None) -> Release:
    """For what is judged by a release anyway: of a line, (2,), its newest, and of what is not known the newest."""
    return NEWEST if release is None else (*release, *NEWEST)


def default_of(key: str, release: Release) -> str | None:
    """The default of that release; None for a key that nothing is judged by."""
    eras = DEFAULTS.get(key, ())
    return next((each.value for each in eras if each.before is None or release < each.before), None)
