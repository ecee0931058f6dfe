"""What brokers will refuse of the load for good, by the scenario's own settings, is said before a run."""

from dataclasses import replace

import pytest

from harness.preflight.plan import topology_of
from harness.preflight.refusals import problems
from harness.scenario import file as scenario_file
from harness.scenario.model import Traits

GROUPS = '[workload]\nname = "consumer_groups"\ngroup = "g"\n'
TRANSACTIONS = '[workload]\nname = "transactions"\ngroup = "g"\noutput = "out"\nprocessors = 1\n'
BOTH = '[[topics]]\nname = "in"\nreplication_factor = 1\n[[topics]]\nname = "out"\nreplication_factor = 1\n'
ONE = '[[topics]]\nname = "in"\nreplication_factor = 1\n'


def problems_of(text: str, *version: int, cluster: str = "", kind: str = "kafka") -> list[str]:
    system = ".".join(map(str, version))
    head = f'[cluster]\nbrokers = [1]\nsystem = "kafka:{system}"\n{cluster}'
    scenario = scenario_file.parse(head + text, name="s", place="s.toml")
    scenario = replace(scenario, traits=Traits(kind=kind, version=version))
    return [str(each) for each in problems(scenario, topology_of(scenario))]


def settings(**given: object) -> str:
    return "[cluster.settings]\n" + "".join(f'"{key.replace("_", ".")}" = "{value}"\n' for key, value in given.items())


@pytest.mark.parametrize(
    ("text", "cluster", "line"),
    [
        (ONE + 'settings = { "cleanup.policy" = "compact,delete" }\n', "", "s.toml:7: topic 'in' compacts and"),
        (ONE, settings(log_cleanup_policy="compact"), "s.toml:5: topic 'in' compacts and the load's records"),
        (ONE + 'settings = { "max.message.bytes" = 31 }\n', "", "takes batches of at most 31 bytes, and each value"),
        (GROUPS + "session_timeout_ms = 5999\n" + ONE, "", "the brokers' group.min.session.timeout.ms is 6000"),
        (
            TRANSACTIONS + "transaction_timeout_ms = 900001\n" + BOTH,
            "",
            "the brokers' transaction.max.timeout.ms is 900000, and no transaction may begin",
        ),
        (
            TRANSACTIONS + BOTH + 'settings = { "cleanup.policy" = "compact" }\n',
            "",
            "topic 'out' compacts and a processor's results have no keys",
        ),
        (
            GROUPS + ONE,
            settings(offsets_topic_replication_factor=3),
            "3 replicas on 1 brokers, so that __consumer_offsets is never created",
        ),
        (TRANSACTIONS + BOTH, settings(transaction_state_log_replication_factor=2), "__transaction_state is never"),
    ],
)
def test_a_load_that_brokers_will_refuse_for_good_is_one_line(text: str, cluster: str, line: str) -> None:
    (problem,) = problems_of(text, 4, 3, 1, cluster=cluster)
    assert line in problem


@pytest.mark.parametrize(
    ("text", "cluster", "version"),
    [
        ("[workload]\nkeys = 5\n" + ONE + 'settings = { "cleanup.policy" = "compact" }\n', "", (4, 3, 1)),
        (
            '[workload]\ntopics = ["in"]\n' + BOTH + 'settings = { "cleanup.policy" = "compact" }\n',
            "",
            (4, 3, 1),
        ),
        (ONE + 'settings = { "max.message.bytes" = 32 }\n', "", (4, 3, 1)),
        (
            GROUPS + "session_timeout_ms = 2000\n" + ONE,
            settings(group_min_session_timeout_ms=2000),
            (4, 3, 1),
        ),
        (GROUPS + ONE, settings(transaction_state_log_replication_factor=3), (4, 3, 1)),
        # KIP-115: brokers of before made do with fewer replicas
        (GROUPS + "idempotence = false\n" + ONE, settings(offsets_topic_replication_factor=3), (0, 10, 2, 2)),
    ],
)
def test_a_load_that_brokers_take_is_not(text: str, cluster: str, version: tuple[int, ...]) -> None:
    assert problems_of(text, *version, cluster=cluster) == []


@pytest.mark.parametrize(("kind", "refused"), [("kafka", 1), ("reference", 1), ("another", 0)])
def test_the_defaults_of_another_system_than_kafka_are_not_known(kind: str, refused: int) -> None:
    sessions = GROUPS + "session_timeout_ms = 5999\n" + ONE
    transactions = TRANSACTIONS + "transaction_timeout_ms = 900001\n" + BOTH
    assert [len(problems_of(text, 4, 3, 1, kind=kind)) for text in (sessions, transactions)] == [refused, refused]
    assert len(problems_of(sessions, 4, 3, 1, cluster=settings(group_min_session_timeout_ms=6000), kind=kind)) == 1


def test_a_key_is_found_where_it_stands_and_not_where_another_ends_so() -> None:
    text = '[cluster.settings]\n"metadata.log.dir" = "a"\n"log.dir" = "b"\n' + ONE
    scenario = scenario_file.parse(text, name="s", place="s.toml")
    assert scenario.places.setting("cluster", "log.dir").line == 3
