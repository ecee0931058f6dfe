"""What Kafka's own clients in Java need, and what their tools cannot do, is said before a run."""

from pathlib import Path

import pytest

from harness.clients import catalogue
from harness.errors import Problem, UsageError
from harness.ports.load import WorkloadSpec
from harness.preflight import java_clients
from harness.scenario.file import Draft
from harness.scenario.model import Traits

TOPIC = '[[topics]]\nname = "t"\n'
OTHER = '[[topics]]\nname = "u"\n'
GROUP = 'name = "consumer_groups"\ngroup = "g"\n'
ATTACHED = '[cluster]\nsystem = "attached"\nbootstrap = "127.0.0.1:1"\n'


def problems(workload: str = "", *parts: str, client: str = "java", version: tuple[int, ...] = ()) -> list[Problem]:
    text = f'{"".join(parts)}[workload]\nclient = "{client}"\n{workload}'
    return list(java_clients.problems(Draft(text, name="s", place="s.toml").scenario(traits(version))))


def traits(version: tuple[int, ...]) -> Traits:
    return Traits(kind="kafka", version=version) if version else Traits()


@pytest.fixture(autouse=True)
def no_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_without_the_jars_one_line_says_how_to_get_them() -> None:
    (problem,) = problems("", TOPIC)

    assert str(problem).endswith("fetch them once: kafka-chaos fetch-kafka 4.3.1")
    assert problem.of_machine
    assert problem.place.file == "s.toml"
    assert "\n" not in str(problem)


def test_other_clients_need_none_of_it_nor_does_a_load_without_any() -> None:
    assert problems("", TOPIC, client="kafka-python") == []
    assert problems('name = "none"\n', TOPIC) == []


@pytest.mark.parametrize(
    ("workload", "parts", "version", "message"),
    [
        ("producers = 1\n", (TOPIC, OTHER), (), "a producer writes to one topic, and 2 are to be written"),
        (GROUP, (TOPIC, OTHER), (), "a member of a group reads one topic, and 2 are to be read"),
        ("", ('[[topics]]\nname = "t"\nsettings = { "cleanup.policy" = "compact" }\n',), (), "compacted by keys"),
        ("", (TOPIC, '[cluster.settings]\n"log.cleanup.policy" = "delete, compact"\n'), (), "compacted by keys"),
        ("", (TOPIC,), (1, 1, 1), "speak to no brokers older than 2.1"),
        (
            'name = "transactions"\ngroup = "g"\nprocessors = 1\noutput = "u"\n',
            (TOPIC, OTHER),
            (),
            "tells neither what it wrote in them nor how they ended",
        ),
        ("", (ATTACHED, TOPIC, '[attached.security]\nsasl = "OAUTHBEARER"\ntoken_command = "t"\n'), (), "OAUTHBEARER"),
    ],
)
def test_what_the_tools_cannot_do_is_refused_with_what_to_do(
    workload: str, parts: tuple[str, ...], version: tuple[int, ...], message: str
) -> None:
    _, problem = problems(workload, *parts, version=version)

    assert message in str(problem)
    assert problem.remedy


@pytest.mark.parametrize(
    ("workload", "parts", "version"),
    [
        ("", (TOPIC,), (4, 3, 1)),
        ("producers = 2\n", (TOPIC, OTHER), ()),
        (f'{GROUP}topics = ["t"]\ngroup_protocol = "consumer"\n', (TOPIC, OTHER), (4, 3, 1)),
        ("", (ATTACHED, TOPIC, '[attached.security]\nsasl = "PLAIN"\nuser = "u"\npassword_env = "P"\n'), ()),
    ],
)
def test_what_they_can_do_is_not(workload: str, parts: tuple[str, ...], version: tuple[int, ...]) -> None:
    assert ["fetch-kafka" in str(problem) for problem in problems(workload, *parts, version=version)] == [True]


def test_what_has_no_effect_is_said_and_the_release_stands_in_the_environment() -> None:
    settings = WorkloadSpec(client="java")

    assert "readers without a group are kafka-python's" in catalogue.limits(settings)
    assert catalogue.described(settings)["client"] == "java 4.3.1"


@pytest.mark.parametrize("name", ["kafka-python", "aiokafka"])
def test_the_consumer_protocol_is_refused_with_the_clients_that_know_it(name: str) -> None:
    catalogue.check_group_protocol("java", "consumer")
    with pytest.raises(UsageError, match="use --client confluent-kafka or java"):
        catalogue.check_group_protocol(name, "consumer")
