"""Finds what brokers will refuse of the load for good, by the settings that the scenario itself gives them.

Such a run proves nothing: records without keys in a compacted topic, records above the topic's limit, sessions and
transactions of another length than brokers take, coordinators whose topic wants more replicas than there are brokers.
What is not set has the default of its release.
"""

from collections.abc import Iterator

from harness.cluster.brokers.known_settings import unfit_value
from harness.errors import Place, Problem
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from harness.history.facts.releases import NEWEST, default_of
from harness.preflight.plan import Topology
from harness.scenario.model import Scenario, TopicSpec, Traits
from workloads.consumer_groups import GroupSettings
from workloads.produce_and_poll import ProducerSettings
from workloads.transactions import TransactionsSettings

_POLICY, _LARGEST = "cleanup.policy", "max.message.bytes"
_OF_BROKERS = {_POLICY: "log.cleanup.policy", _LARGEST: "message.max.bytes"}
_LEAST_SESSION = "group.min.session.timeout.ms"
_LONGEST_TRANSACTION = "transaction.max.timeout.ms"
_REPLICAS = {
    GROUP_OFFSETS_TOPIC: "offsets.topic.replication.factor",
    TRANSACTIONS_TOPIC: "transaction.state.log.replication.factor",
}
_REPLICAS_KEPT_SINCE = (0, 11)  # before, brokers made do with as many as there were (KIP-115)


def problems(scenario: Scenario, topology: Topology) -> Iterator[Problem]:
    """Of a cluster whose settings are the scenario's; somebody else's may have any."""
    if scenario.cluster.is_foreign or not isinstance(scenario.workload, ProducerSettings):
        return
    traits = scenario.traits
    yield from _of_records(scenario, scenario.workload)
    if isinstance(scenario.workload, GroupSettings):
        yield from _of_sessions(scenario, scenario.workload, traits)
        yield from _of_coordinators(scenario, traits, topology)
    if isinstance(scenario.workload, TransactionsSettings):
        yield from _of_transactions(scenario, scenario.workload, traits)


def _of_records(scenario: Scenario, workload: ProducerSettings) -> Iterator[Problem]:
    for index, topic in enumerate(scenario.topics):
        if workload.topics and topic.name not in workload.topics:
            continue
        results = isinstance(workload, TransactionsSettings) and topic.name == workload.output
        if compacts(scenario, topic) and (results or not workload.keys):
            what, remedy = "the load's records have no keys", "give [workload] keys = 20"
            if results:
                what, remedy = "a processor's results have no keys", "let another topic be the output"
            yield Problem(
                place=_place(scenario, topic, index, _POLICY),
                what=f"topic {topic.name!r} compacts and {what}, so that brokers refuse them",
                remedy=remedy,
            )
        largest = _number(_of_topic(scenario, topic, _LARGEST))
        if largest is not None and not results and workload.value_bytes > largest:
            yield Problem(
                place=_place(scenario, topic, index, _LARGEST),
                what=f"topic {topic.name!r} takes batches of at most {largest} bytes, and each value has "
                f"{workload.value_bytes}",
                remedy=f"give [workload] value_bytes below {largest}",
            )


def compacts(scenario: Scenario, topic: TopicSpec) -> bool:
    """By its own setting, or else the brokers' as the scenario gives it."""
    return "compact" in [each.strip() for each in (_of_topic(scenario, topic, _POLICY) or "").split(",")]


def _of_sessions(scenario: Scenario, workload: GroupSettings, traits: Traits) -> Iterator[Problem]:
    least, asked = _of_brokers(scenario, _LEAST_SESSION, traits), workload.session_timeout_ms
    if least is not None and asked < least:
        yield Problem(
            place=scenario.places.key("workload", "session_timeout_ms"),
            what=f"session_timeout_ms = {asked}: the brokers' {_LEAST_SESSION} is {least}, and no member may join",
            remedy=f'give [cluster.settings] "{_LEAST_SESSION}" = {asked}',
        )


def _of_transactions(scenario: Scenario, workload: TransactionsSettings, traits: Traits) -> Iterator[Problem]:
    longest, asked = _of_brokers(scenario, _LONGEST_TRANSACTION, traits), workload.transaction_timeout_ms
    if longest is not None and asked > longest:
        yield Problem(
            place=scenario.places.key("workload", "transaction_timeout_ms"),
            what=f"transaction_timeout_ms = {asked}: the brokers' {_LONGEST_TRANSACTION} is {longest}, and no "
            "transaction may begin",
            remedy=f"at most {longest} is possible",
        )


def _of_coordinators(scenario: Scenario, traits: Traits, topology: Topology) -> Iterator[Problem]:
    if (traits.kind == "kafka" and traits.version < _REPLICAS_KEPT_SINCE) or not topology.knows_nodes:
        return
    for topic, key in _REPLICAS.items():
        wanted = _number(scenario.cluster.settings.get(key))
        used = topic == GROUP_OFFSETS_TOPIC or isinstance(scenario.workload, TransactionsSettings)
        if used and wanted is not None and wanted > len(topology.brokers):
            yield Problem(
                place=scenario.places.setting("cluster", key),
                what=f"[cluster] settings, {key!r}: {wanted} replicas on {len(topology.brokers)} brokers, so that "
                f"{topic} is never created and nothing has a coordinator",
                remedy="leave it out, or start more brokers",
            )


def _of_topic(scenario: Scenario, topic: TopicSpec, key: str) -> str | None:
    return topic.settings.get(key, scenario.cluster.settings.get(_OF_BROKERS[key]))


def _place(scenario: Scenario, topic: TopicSpec, index: int, key: str) -> Place:
    if key in topic.settings:
        return scenario.places.setting("topics", key, index=index, topic=topic.name)
    return scenario.places.setting("cluster", _OF_BROKERS[key])


def _of_brokers(scenario: Scenario, key: str, traits: Traits) -> int | None:
    """As the scenario sets it, else by default; of another system than Kafka and the reference nobody knows that."""
    default = default_of(key, traits.version or NEWEST) if traits.kind in ("kafka", "reference") else None
    return _number(scenario.cluster.settings.get(key, default))


def _number(value: str | None) -> int | None:
    """None where none is given; one that is no number is told by capabilities.py."""
    return None if value is None or unfit_value("int", str(value)) is not None else int(value)
