"""What a load of Kafka's own clients in Java needs: Java, the tools' jars, and only what these tools can do."""

from collections.abc import Iterator, Mapping

from harness.clients.catalogue import JAVA
from harness.clients.java import KAFKA, OLDEST_BROKERS
from harness.clients.java_program import JavaTools
from harness.cluster.brokers.kafka_jars import installed
from harness.cluster.brokers.kafka_versions import resolve_version
from harness.errors import HarnessError, Problem
from harness.host.java import java_home
from harness.ports.security import BY_TOKEN
from harness.preflight.refusals import compacts
from harness.scenario.model import Scenario

_LOADS = ("produce_and_poll", "consumer_groups")


def java_tools(names: Mapping[str, str]) -> JavaTools:
    """names: the addresses of the brokers' names for this client. Raises HarnessError for what this machine lacks."""
    home = installed(resolve_version(KAFKA))
    if home is None:
        raise HarnessError(
            f"client {JAVA!r} needs the tools of Kafka {KAFKA}; fetch them once: kafka-chaos fetch-kafka {KAFKA}"
        )
    return JavaTools(java=java_home() / "bin" / "java", class_path=home.class_path, names=names)


def problems(scenario: Scenario) -> Iterator[Problem]:
    workload, places = scenario.workload, scenario.places
    if workload.client != JAVA or not workload.workers:
        return
    client = places.key("workload", "client")
    try:
        java_tools({})
    except HarnessError as error:
        yield Problem(place=client, what=str(error), of_machine=True)
    for what, remedy in _beyond(scenario):
        yield Problem(place=client, what=f"client {JAVA!r}: {what}", remedy=remedy)


def _beyond(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """(what its tools cannot do, the remedy)."""
    workload, traits = scenario.workload, scenario.traits
    facts, another = workload.facts, "use another client"
    if facts.transactional_ids:
        yield "its tool for transactions tells neither what it wrote in them nor how they ended", another
        return
    if workload.name not in _LOADS:
        yield f"its tools have no workload {workload.name!r}", f"use one of {', '.join(_LOADS)}, or another client"
        return
    if traits.version and traits.version < OLDEST_BROKERS:
        oldest = ".".join(map(str, OLDEST_BROKERS))
        yield f"the clients of Kafka {KAFKA} speak to no brokers older than {oldest}", another
    written = [topic for topic in scenario.topics if not workload.topics or topic.name in workload.topics]
    if facts.clients.get("producer", 0) < len(written):
        yield f"a producer writes to one topic, and {len(written)} are to be written", "give as many producers"
    if facts.group and len(written) > 1:
        yield f"a member of a group reads one topic, and {len(written)} are to be read", "name one in [workload] topics"
    compacted = [topic.name for topic in written if compacts(scenario, topic)]
    if compacted:
        yield f"its keys are not recorded, and {compacted[0]!r} is compacted by keys", another
    security = scenario.cluster.attached.security
    if security is not None and security.sasl == BY_TOKEN:
        yield f"its tools cannot log in by {BY_TOKEN}", another
