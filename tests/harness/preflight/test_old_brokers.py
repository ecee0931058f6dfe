"""What brokers of old cannot do is refused before a run, in one line that says what to do."""

import pytest

from harness.cluster.local.cluster import LocalCluster
from harness.errors import Problem
from harness.preflight import capabilities
from harness.scenario.file import Draft
from harness.scenario.model import Traits

TOPIC = '[[topics]]\nname = "t"\n'
PLAIN = "idempotence = false\n"


def problems(version: tuple[int, ...], workload: str = "", steps: str = "") -> list[Problem]:
    draft = Draft(f"[workload]\n{workload}{TOPIC}{steps}", name="s", place="s.toml")
    return list(capabilities.problems(draft.scenario(traits(*version)), LocalCluster))


def traits(*version: int) -> Traits:
    return Traits(kind="kafka", version=version)


@pytest.mark.parametrize(
    ("version", "workload", "message"),
    [
        ((0, 9, 0, 1), f'client = "confluent-kafka"\n{PLAIN}', "client 'confluent-kafka': it asks brokers"),
        ((0, 9, 0, 1), f'client = "aiokafka"\n{PLAIN}', "Kafka 0.9.0.1 cannot answer that; use kafka-python"),
        ((0, 10, 1, 1), f'client = "confluent-kafka"\n{PLAIN}', "advertises itself by names"),
        ((0, 10, 2, 2), "", "Kafka 0.10.2.2 has no idempotent producers"),
    ],
)
def test_a_client_that_old_brokers_cannot_serve_is_refused(
    version: tuple[int, ...], workload: str, message: str
) -> None:
    (problem,) = problems(version, workload)
    assert message in str(problem)
    assert problem.place.file == "s.toml"


@pytest.mark.parametrize(
    ("version", "workload"),
    [
        ((), 'client = "confluent-kafka"\n'),  # not Kafka by version: the reference, or somebody else's
        ((0, 9, 0, 1), PLAIN),
        ((0, 9, 0, 1), 'name = "none"\n'),  # only probes, which are never idempotent
        ((0, 9, 0, 1), 'acks = "1"\n'),
        ((0, 10, 1, 1), f'client = "aiokafka"\n{PLAIN}'),
        ((0, 10, 2, 2), f'client = "confluent-kafka"\n{PLAIN}'),
        ((0, 11, 0, 3), ""),
    ],
)
def test_what_they_can_serve_is_not(version: tuple[int, ...], workload: str) -> None:
    assert problems(version, workload) == []


def test_a_probe_by_a_client_s_link_needs_brokers_that_advertise_addresses() -> None:
    probing = 'name = "none"\n', '[[steps]]\nexpect = { read = "a", from = 1 }\n'
    assert problems((0, 10, 2, 2), *probing) == []
    (problem,) = problems((0, 10, 1, 1), *probing)
    assert (problem.place.line, problem.remedy) == (6, "leave 'from' out")


def test_only_brokers_before_0_10_have_to_be_told_about() -> None:
    assert traits(0, 9, 0, 1).silent_version == (0, 9, 0, 1)
    assert traits(0, 10, 0, 1).silent_version == ()
    assert Traits().silent_version == ()
