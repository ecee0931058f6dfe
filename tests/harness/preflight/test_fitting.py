"""A scenario is fitted to the brokers of somebody else's cluster, and what would be done there is told in lines."""

from collections.abc import Callable
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.preflight import fitting, looking, plan
from harness.preflight.capabilities import notes
from harness.preflight.fitting import Registered, fitted
from harness.preflight.foreseen import would_be_done
from harness.preflight.looking import for_its_system, why_left_out
from harness.scenario.file import Draft, drafted
from harness.scenario.model import Scenario

THERE = '[cluster]\nsystem = "attached"\nbootstrap = "a:1"\n[attached]\nkill = "k {node}"\nstart = "s {node}"\n'
GROUPS = """
[[topics]]
name = "orders"
[[topics]]
name = "results"
partitions = 2
settings = { "retention.ms" = 900 }
[workload]
name = "transactions"
group = "packers"
output = "results"
processors = 1
[[faults]]
kind = "crash"
target = "leader(orders/0)"
at = "5 s"
for = "4 s"
"""


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def are(*brokers: int) -> None:
        async def registered(*_: Any, **__: Any) -> dict[int, tuple[str, int]]:
            if not brokers:
                raise HarnessError("nobody answers")
            return {broker: ("a", broker) for broker in brokers}

        monkeypatch.setattr(fitting, "registered", registered)

    return are


def fit(text: str) -> Scenario:
    return fitted(for_its_system(Draft(text, name="s", place="s.toml")), Registered())


def test_replicas_that_nobody_counted_are_as_many_as_there_are_brokers_for(there: Callable[..., None]) -> None:
    there(7)
    assert [topic.replicas for topic in fit(THERE + GROUPS).topics] == [1, 1]
    there(11, 12, 13, 14)
    assert [topic.replicas for topic in fit(THERE + GROUPS).topics] == [3, 3]
    there()
    assert fit(THERE + GROUPS).traits.brokers == ()


def test_a_shipped_scenario_runs_on_any_ids_and_says_who_stands_for_whom(there: Callable[..., None]) -> None:
    there(11, 12, 13)
    attached = ["cluster.system=attached", "cluster.bootstrap=a:1"]
    scenario = fitted(for_its_system(drafted("leader-crash-acks-all", overrides=attached)), Registered())
    assert scenario.topics[0].assignment == ((11, 12, 13), (12, 13, 11), (13, 11, 12))
    note = "the attached cluster has other brokers than the scenario names: 1 is 11, 2 is 12, 3 is 13"
    assert note in notes(scenario)
    there(7)
    refused = fitted(for_its_system(drafted("leader-crash-acks-all", overrides=attached)), Registered())
    assert why_left_out(refused) == "not for attached: it names 3 brokers (1, 2, 3), and the cluster has 1 (7)"


@pytest.mark.parametrize(
    ("step", "wrong"),
    [
        ("wait = { leader = 'x' }", "'x' is no broker's id"),
        ("wait = { leader = true }", "True is no broker's id"),
        ("wait = { isr = ['a'] }", "isr is a list of broker ids, not ['a']"),
        ("wait = { isr = [true] }", "isr is a list of broker ids, not [True]"),
        ("wait = { isr = 3 }", "isr is a list of broker ids, not 3"),
        ("wait = { log_end = 5 }", "log_end is a table by broker id, not 5"),
        ("wait = { log_end = { a = 5 } }", "log_end is a table by broker id, not {'a': 5}"),
        ("wait = { leader_seen_by = { 1 = 'x' } }", "'x' is no broker's id"),
        (
            "expect = { create_topic = 'x', assignment = [1, 2] }",
            "assignment lists the brokers of each partition, not [1, 2]",
        ),
        ("expect = { create_topic = 'x', assignment = 3 }", "assignment lists the brokers of each partition, not 3"),
        ("act = { kill = 'nobody' }", "target 'nobody': write a broker id"),
        ("act = { cut = ['2>'] }", "no link '2>'"),
    ],
)
def test_what_names_no_broker_on_other_ids_is_said_as_on_our_own(
    step: str, wrong: str, there: Callable[..., None]
) -> None:
    there(11, 12, 13)
    topics = "[[topics]]\nname = 'orders'\nassignment = [[1, 2, 3]]\n"
    text = f"{topics}[workload]\nname = 'none'\n[[steps]]\n{step}\n"
    for scenario in (for_its_system(Draft(text, name="s", place="s.toml")), fit(THERE + text)):
        if scenario.cluster.is_foreign and "cut" in step:
            continue  # which links there are, nobody tells
        (problem,) = plan.names(scenario, plan.topology_of(scenario))
        assert wrong in problem.what


def test_our_own_cluster_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "registered", None)
    scenario = for_its_system(drafted("no-faults"))
    assert fitted(scenario, Registered()) is scenario


def test_what_would_be_done_names_every_topic_group_id_fault_and_command(there: Callable[..., None]) -> None:
    there(7)
    assert list(would_be_done(fit(THERE + GROUPS))) == [
        "it would connect to brokers 7, by a:1",
        "it would make topic chaos-<mark>-orders: 1 partition of 1 replica; deleted after the run",
        "it would make topic chaos-<mark>-results: 2 partitions of 1 replica, retention.ms=900; deleted after the run",
        "it would use group chaos-<mark>-packers; deleted after the run",
        "it would use transactional id chaos-<mark>-packers-1, which expires by itself",
        "it would send and read for about 20 s with 2 producers, 1 consumer, 1 processor",
        "it would crash leader(orders/0) at 5 s for 4 s",
        "by the kill command: k {node}",
        "by the start command: s {node}",
        "no other topic, group or transactional id would be touched",
    ]
    assert list(would_be_done(for_its_system(drafted("no-faults")))) == []
    unmarked = list(would_be_done(fit(THERE + 'prefix = ""\ndelete_topics = false\n' + GROUPS)))
    assert "it would make topic orders: 1 partition of 1 replica; kept after the run" in unmarked


def test_a_cluster_is_asked_once_however_many_scenarios_are_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def registered(bootstrap: str, *_: Any, **__: Any) -> dict[int, tuple[str, int]]:
        asked.append(bootstrap)
        return {7: ("a", 7)}

    monkeypatch.setattr(fitting, "registered", registered)
    monkeypatch.setattr(looking, "preflight", lambda *_, **__: [])
    there = ["cluster.system=attached", "cluster.bootstrap=a:1"]
    elsewhere = ["cluster.system=attached", "cluster.bootstrap=b:1"]
    names = ("node-crash", "node-pause", "node-stop")
    scenarios = looking.all_ready([*((name, there) for name in names), ("node-groups", elsewhere)], leave_out=True)
    assert [each.traits.brokers for each in scenarios] == [(7,)] * 4
    assert asked == ["a:1", "b:1"]


def test_expectations_that_write_are_told_as_acts_are(there: Callable[..., None]) -> None:
    there(7)
    steps = [
        "act = { elect = 'preferred' }",
        "expect = { isr = [1] }",
        "expect = { produce = 'a', to = 1 }",
        "expect = { create_topic = 'x' }",
        "expect = { elect = 'unclean', error = 84 }",
        "expect = { configure = { 'log.dirs' = 'x' }, error = 40 }",
        "expect = { read = 'a' }",
    ]
    tables = "".join(f"[[steps]]\n{step}\n" for step in steps)
    planned = would_be_done(fit(THERE + f"[[topics]]\nname = 'orders'\n[workload]\nname = 'none'\n{tables}"))
    assert [line for line in planned if "at step" in line] == [
        "it would, at step 1, elect preferred",
        "it would, at step 3, expect produce a (to 7)",
        "it would, at step 4, expect create topic x",
        "it would, at step 5, expect elect unclean (error 84)",
        "it would, at step 6, expect configure log.dirs = x (error 40)",
    ]
