"""A scenario's broker ids are roles: on a cluster with other ids each stands for one of its brokers, wherever it is."""

from typing import Any

import pytest

from harness.errors import UsageError
from harness.scenario.file import load, parse, shipped_names
from harness.scenario.model import Scenario
from harness.scenario.recast import named_brokers, recast
from harness.scenario.written import written_out

TOPICS = "[cluster]\nbrokers = [3, 1, 2]\n[[topics]]\nname = 'orders'\nassignment = [[1, 2, 3], [2, 3, 1]]\n"


def read(text: str) -> Scenario:
    return parse(TOPICS + text, name="s", place="s.toml")


def step_on(there: str) -> dict[str, Any]:
    scenario, _ = recast(read(f"[workload]\nname = 'none'\n[[steps]]\n{there}\n"), [11, 12, 13])
    (step,) = scenario.steps
    return {step.kind: dict(step.body)}


def test_assignments_and_the_brokers_are_those_of_the_cluster_in_order() -> None:
    scenario, roles = recast(read(""), [13, 11, 12, 40])
    assert roles == {1: 11, 2: 12, 3: 13}
    assert scenario.topics[0].assignment == ((11, 12, 13), (12, 13, 11))
    assert scenario.cluster.brokers == (11, 12, 13, 40)


def test_a_scenario_that_names_the_clusters_own_brokers_stays_as_it_is() -> None:
    written = read("[[faults]]\nkind = 'crash'\ntarget = '2'\nat = '3 s'\n")
    scenario, roles = recast(written, [1, 2, 3, 4])
    assert (roles, scenario.topics, scenario.faults) == ({}, written.topics, written.faults)


@pytest.mark.parametrize(
    ("target", "there"),
    [
        ("1", "11"),
        ("broker(1)", "broker(11)"),
        ("all - 3", "all - 13"),
        ("random(1) - 1", "random(1) - 11"),
        ("leader(orders/1) + 2", "leader(orders/1) + 12"),
        ("isr(orders-1/1)", "isr(orders-1/1)"),
        ("controller + 100", "controller + 100"),
        ("all-2", "all - 12"),
        ("isr(orders/0)-1", "isr(orders/0) - 11"),
        ("1-2", "11 - 12"),
        ("broker( 1 )+2", "broker(11) + 12"),
        ("coordinator(my group 2)", "coordinator(my group 2)"),
    ],
)
def test_a_target_keeps_its_roles_and_counts(target: str, there: str) -> None:
    faults = f"[[faults]]\nkind = 'crash'\ntarget = '{target}'\nat = '3 s'\n"
    scenario, _ = recast(read(faults), [11, 12, 13])
    assert scenario.faults[0].target == there


def test_links_of_a_fault_move_at_both_ends() -> None:
    named = ["2>1", "clients>3", "clients > n1", "c1>1", "n1>n2", "3>100"]
    faults = f"[[faults]]\nkind = 'cut'\noptions = {{ links = {named} }}\nat = '3 s'\n"
    scenario, _ = recast(read(faults), [11, 12, 13])
    assert scenario.faults[0].options["links"] == ["12>11", "clients>13", "clients>11", "c1>11", "11>12", "13>100"]


@pytest.mark.parametrize(
    ("step", "there"),
    [
        ("act = { kill = 1 }", {"act": {"kill": 11}}),
        ("act = { kill = [1, 2] }", {"act": {"kill": [11, 12]}}),
        ("act = { kill = 'leader(orders/1)' }", {"act": {"kill": "leader(orders/1)"}}),
        ("act = { start = 1 }", {"act": {"start": 11}}),
        ("act = { cut = ['2>1'], mode = 'reset' }", {"act": {"cut": ["12>11"], "mode": "reset"}}),
        ("act = { heal = ['2>1'] }", {"act": {"heal": ["12>11"]}}),
        ("act = { heal = 'all' }", {"act": {"heal": "all"}}),
        ("act = { heal = ['n2>n1', 'clients>n1'] }", {"act": {"heal": ["12>11", "clients>11"]}}),
        ("act = { heal = 'cut' }", {"act": {"heal": "cut"}}),
        ("act = { kill = 'all-2' }", {"act": {"kill": "all - 12"}}),
        ("act = { isolate = 1, from = 'clients' }", {"act": {"isolate": 11, "from": "clients"}}),
        ("act = { produce = '1, 2', partition = 1 }", {"act": {"produce": "1, 2", "partition": 1}}),
        ("wait = { leader = 2, partition = 1 }", {"wait": {"leader": 12, "partition": 1}}),
        ("wait = { leader = -1 }", {"wait": {"leader": -1}}),
        ("wait = { isr = [1, 3] }", {"wait": {"isr": [11, 13]}}),
        ("wait = { leaders = [1, 2] }", {"wait": {"leaders": [11, 12]}}),
        ("wait = { leaders_each = { 1 = 2, 2 = 1 } }", {"wait": {"leaders_each": {"11": 2, "12": 1}}}),
        ("wait = { leader_seen_by = { 1 = 2 } }", {"wait": {"leader_seen_by": {"11": 12}}}),
        ("wait = { log_end = { 1 = 3 } }", {"wait": {"log_end": {"11": 3}}}),
        ("wait = { acks = 2 }", {"wait": {"acks": 2}}),
        ("wait = { leader_epoch = 2 }", {"wait": {"leader_epoch": 2}}),
        ("expect = { fetch = 1, broker = 2 }", {"expect": {"fetch": 1, "broker": 12}}),
        ("expect = { produce = 'a', to = 1, error = 2 }", {"expect": {"produce": "a", "to": 11, "error": 2}}),
        ("expect = { epoch_file = { 1 = [[0, 2]] } }", {"expect": {"epoch_file": {"11": [[0, 2]]}}}),
        ("expect = { epoch_end = { 1 = 2 }, broker = 1 }", {"expect": {"epoch_end": {1: 2}, "broker": 11}}),
        (
            "expect = { create_topic = 'x', assignment = [[1, 2]] }",
            {"expect": {"create_topic": "x", "assignment": [[11, 12]]}},
        ),
    ],
)
def test_a_step_names_the_clusters_brokers(step: str, there: dict[str, Any]) -> None:
    def plain(body: dict[str, Any]) -> dict[str, Any]:
        return {kind: {key: _keyed(value) for key, value in entry.items()} for kind, entry in body.items()}

    assert plain(step_on(step)) == plain(there)


def _keyed(value: Any) -> Any:
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else value


def test_no_scenario_that_is_shipped_names_a_broker_that_is_not_there_any_more() -> None:
    for name in shipped_names():
        scenario = load(name)
        there = range(71, 71 + max(1, len(named_brokers(scenario))))
        moved, _ = recast(scenario, list(there))
        assert set(named_brokers(moved)) <= set(there), name
        parse(written_out(moved), name=name, place="there.toml")  # what a run of it would keep


def test_a_cluster_with_fewer_brokers_than_are_named_is_refused_with_both() -> None:
    with pytest.raises(UsageError, match=r"^it names 3 brokers \(1, 2, 3\), and the cluster has 1 \(7\)$"):
        recast(read(""), [7])
