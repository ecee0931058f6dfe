"""What a drawn schedule stands on: the cluster, its topics and the load, with the settings that make flaws show.

Small lags and timeouts bring elections and ISR changes about within seconds; long fetch waits and few records leave
high watermarks behind; retries show what a lost answer leads to. Each run leaves out a random half of the options.
"""

import importlib.util
import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from harness.campaign.drawing.profiles import Profile
from harness.host.randomness import half, weighed
from harness.ports.load import WorkloadSpec
from harness.scenario.model import ON_A_LOOP, SIMULATED, ClusterSpec, TopicSpec, Traits
from harness.scenario.workloads import settings_of
from workloads.produce_and_poll import ProducerSettings

TOPIC, OUTPUT = "orders", "shipments"
_MODULES = {"kafka-python": "kafka", "confluent-kafka": "confluent_kafka", "aiokafka": "aiokafka"}
_OPTIONS = (
    "partitions",
    "lag",
    "fetch-wait",
    "session",
    "sparse",
    "unclean",
    "retention",
    "replies",
    "controller",
    "checkpoint",
    "rebalance",
    "one-replica-less",
)
_SESSION_MS = 2500  # about what clusters have here if nothing else is asked for
_SOON_TIDIED = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500"}
_HANDS_BACK = "auto.leader.rebalance.enable"
# Short, so that a leader without followers is asked again while it is alone: a producer that waits sends nothing else.
_PATIENCE_MS = (700, 1500, 3000)
_NO_IDEMPOTENCE_BEFORE = (0, 11)
_CLIENTS_ALIKE_BEFORE = (1, 0)  # older brokers: kafka-python alone speaks to all of them
_SEGMENTS_OF_A_MEGABYTE_SINCE = (4, 0)
_BOTH_POLICIES_SINCE = (0, 10, 1)
_ORDERS = tuple(permutations((1, 2, 3)))  # of the replicas; the first one is the preferred leader


@dataclass(frozen=True, kw_only=True)
class Setup:
    cluster: ClusterSpec
    topics: tuple[TopicSpec, ...]
    workload: WorkloadSpec
    min_in_sync: int
    unclean: bool
    loses_replies: bool
    lag_s: float  # how long a replica may lag behind before it leaves the ISR
    session_s: float  # how long a broker may be silent before it counts as gone
    hands_back: bool  # leaders that return are made to lead again by themselves
    tails: tuple[int, ...]  # as many records as a partition's log surely has after some seconds


def setup(profile: Profile, system: str, traits: Traits, chance: random.Random) -> Setup:
    options = set(half(chance, _OPTIONS, least=4))
    duration_s = round(chance.uniform(*profile.duration_s), 1)
    unclean = "unclean" in options and chance.random() < 0.25
    min_in_sync = 1 if unclean else weighed(chance, {1: 0.35, 2: 0.65})
    loses_replies = "replies" in options or chance.random() < profile.replies_share
    workload = _workload(profile, traits, options, loses_replies, duration_s, chance)
    settings = {"min.insync.replicas": str(min_in_sync), "unclean.leader.election.enable": str(unclean).lower()}
    broker_settings = _brokers(options, chance)
    if isinstance(workload, ProducerSettings) and workload.keys:
        settings |= _compaction(traits, chance)
        broker_settings |= {"log.cleaner.backoff.ms": "200"} | _SOON_TIDIED
    elif "retention" in options and chance.random() < 2 * profile.retention_share:
        settings |= _retention(traits, chance)
        broker_settings |= _SOON_TIDIED
    assignment = _assignment(chance.choice((3, 6, 6)) if "partitions" in options else chance.choice((1, 2)), chance)
    topics = [TopicSpec(name=TOPIC, assignment=assignment, settings=settings)]
    if workload.facts.outputs:
        topics.append(TopicSpec(name=OUTPUT, assignment=_ORDERS[:1], settings=settings))
    brokers = (4, 1, 2, 3) if "controller" in options else tuple(chance.sample((1, 2, 3), 3))
    cluster = ClusterSpec(brokers=brokers, settings=broker_settings, system=system, world=traits.world)
    return Setup(
        cluster=cluster,
        topics=tuple(topics),
        workload=workload,
        min_in_sync=min_in_sync,
        unclean=unclean,
        loses_replies=loses_replies,
        lag_s=int(broker_settings["replica.lag.time.max.ms"]) / 1000,
        session_s=int(broker_settings.get("zookeeper.session.timeout.ms", _SESSION_MS)) / 1000,
        tails=(1, 2, 5) if workload.facts.in_flight == 1 else (1, 10, 50),
        hands_back=broker_settings.get(_HANDS_BACK) == "true",
    )


def _brokers(options: set[str], chance: random.Random) -> dict[str, str]:
    lag_ms = chance.choice((800, 1500, 6000, 10_000)) if "lag" in options else chance.choice((1500, 3000))
    wait_ms = min(chance.choice((500, 1000, 2000)), lag_ms) if "fetch-wait" in options else 200
    settings = {"replica.lag.time.max.ms": str(lag_ms), "replica.fetch.wait.max.ms": str(wait_ms)}
    if "session" in options:
        settings["zookeeper.session.timeout.ms"] = str(chance.choice((1500, 4000)))
    if "checkpoint" in options:
        settings["replica.high.watermark.checkpoint.interval.ms"] = str(chance.choice((100, 3000)))
    if "rebalance" in options and chance.random() < 0.8:
        settings |= {
            _HANDS_BACK: "true",
            "leader.imbalance.check.interval.seconds": "1",
            "leader.imbalance.per.broker.percentage": "0",
        }
    return settings


def _retention(traits: Traits, chance: random.Random) -> dict[str, str]:
    settings = {"segment.ms": str(chance.choice((1000, 2000))), "file.delete.delay.ms": "500"}
    if traits.kind != "kafka" or traits.version < _SEGMENTS_OF_A_MEGABYTE_SINCE:
        settings["segment.bytes"] = str(chance.choice((4096, 16_384)))
    way = chance.choice(("bytes", "time", "none"))
    if way == "bytes":
        settings["retention.bytes"] = str(chance.choice((20_000, 60_000)))
    elif way == "time":
        settings["retention.ms"] = str(chance.choice((3000, 6000)))
    return settings


def _compaction(traits: Traits, chance: random.Random) -> dict[str, str]:
    has_both = not traits.version or traits.version >= _BOTH_POLICIES_SINCE
    policy = chance.choice(("compact", "compact", "compact,delete" if has_both else "compact"))
    return _retention(traits, chance) | {
        "cleanup.policy": policy,
        "min.cleanable.dirty.ratio": chance.choice(("0.01", "0.5")),
        "delete.retention.ms": "1000",
    }


def _assignment(partitions: int, chance: random.Random) -> tuple[tuple[int, ...], ...]:
    """Each partition has another order of the replicas, so that whoever fails, every other replica is next in line for
    some of them. The preferred leaders are spread."""
    orders = chance.sample(_ORDERS, len(_ORDERS))
    rows = sorted(orders, key=lambda row: [each for each in orders if each[0] == row[0]].index(row))
    return tuple(rows[:partitions])


def _workload(
    profile: Profile, traits: Traits, options: set[str], loses_replies: bool, duration_s: float, chance: random.Random
) -> WorkloadSpec:
    missing = set() if traits.groups else {"consumer_groups", "transactions"}
    missing |= set() if traits.transactions else {"transactions"}
    weights = {name: weight for name, weight in profile.workloads.items() if name not in missing}
    name = weighed(chance, weights)
    acks = weighed(chance, {"all": 0.85, "1": 0.15}) if name == "produce_and_poll" else "all"
    known = not traits.version or traits.version >= _NO_IDEMPOTENCE_BEFORE
    idempotence = known and (chance.random() < (0.85 if loses_replies else 0.6))
    client = _library(profile, traits, chance) if name == "produce_and_poll" else "kafka-python"
    client = ON_A_LOOP if traits.world == SIMULATED else client
    fields: dict[str, Any] = {
        "duration_s": duration_s,
        "acks": acks,
        "idempotence": idempotence,
        "client": client,
        "request_timeout_ms": chance.choice(_PATIENCE_MS),
        "delivery_timeout_ms": chance.choice((6000, 12_000)) if loses_replies else 6000,
        **_rate("sparse" in options, chance),
    }
    if name == "produce_and_poll" and profile.compaction_share and chance.random() < profile.compaction_share:
        fields["keys"] = chance.choice((5, 50))
    if name != "produce_and_poll":
        fields |= {"group": "readers", "consumers": 2, "stay_s": float(chance.choice((4, 8)))}
    if name == "transactions":
        # Two of the simulated world's client would not be fenced from each other (KIP-447).
        fields |= {"processors": 1 if traits.world == SIMULATED else 2, "output": OUTPUT, "consumers": 2}
        del fields["stay_s"]
    settings = settings_of(name)
    assert settings is not None, name
    return settings(**fields)


def _rate(sparse: bool, chance: random.Random) -> Mapping[str, Any]:
    """Few records leave time between one and the next, in which replicas do not yet know what is committed."""
    if sparse:
        return {"rate_per_second": float(chance.choice((10, 30, 60))), "batch": 1, "producers": 2}
    return {
        "rate_per_second": float(chance.choice((100, 200, 400))),
        "batch": chance.choice((5, 10, 20)),
        "producers": chance.choice((1, 2, 3)),
    }


def _library(profile: Profile, traits: Traits, chance: random.Random) -> str:
    """Drawn alike on every machine; one that is not installed here is kafka-python."""
    drawn = chance.choice(tuple(_MODULES)) if chance.random() < profile.libraries_share else "kafka-python"
    if traits.version and traits.version < _CLIENTS_ALIKE_BEFORE:
        return "kafka-python"
    return drawn if importlib.util.find_spec(_MODULES[drawn]) is not None else "kafka-python"
