"""A scenario is fitted to the brokers of somebody else's cluster, and what would be done there is told in lines."""

from collections.abc import Callable
from typing import Any

import pytest

from harness.cluster.attached.administration import Answered
from harness.cluster.attached.front_ends import OtherTopology
from harness.errors import HarnessError
from harness.ports.cluster import NodeId
from harness.preflight import fitting, front_ends, looking, plan
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


FRONT_ENDS = '[cluster]\nsystem = "attached"\nbootstrap = "a:1, b:1,c:1"\n[attached]\nfront_ends = true\n'
LOADED = "[[topics]]\nname = 'orders'\n"


@pytest.fixture
def three_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answers_at(given: str, *_: Any, **__: Any) -> Any:
        places = [(each.strip().partition(":")[0], 1) for each in given.split(",")]
        return [Answered(address=place, brokers={NodeId(111): place}) for place in places]

    monkeypatch.setattr(fitting, "answers_at", answers_at)


@pytest.mark.usefixtures("three_ends")
def test_front_ends_stand_by_number_where_brokers_are_named() -> None:
    scenario = fit(FRONT_ENDS + LOADED + "[[faults]]\nkind = 'pause'\ntarget = '3'\nat = '1 s'\n")
    assert scenario.traits.brokers == scenario.cluster.brokers == (1, 2, 3)
    assert [topic.replicas for topic in scenario.topics] == [1]
    assert next(iter(would_be_done(scenario))) == (
        "it would connect to front end 1 at a:1, front end 2 at b:1, front end 3 at c:1"
    )
    assert list(front_ends.problems(scenario)) == []


@pytest.mark.usefixtures("three_ends")
@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (LOADED + "[[faults]]\nkind = 'kill'\ntarget = 'leader(orders/0)'\nat = '1 s'\n", "leader is none of them"),
        (LOADED + "[[faults]]\nkind = 'kill'\ntarget = 'all - controller'\nat = '1 s'\n", "controller is none of them"),
        (
            LOADED + "[[faults]]\nkind = 'kill'\ntarget = '1'\nwhen = 'new_leader(orders/0)'\n",
            "leader or ISR ever chan",
        ),
        (LOADED + "[[faults]]\nkind = 'unclean-election'\nat = '1 s'\n", "it is about several"),
        ("[[topics]]\nname = 'orders'\nassignment = [[1, 2]]\n", "assignment is about several; leave it out"),
        ("[[topics]]\nname = 'orders'\nreplication_factor = 2\n", "replication_factor is about several; leave it out"),
        (LOADED + "[[steps]]\nwait = { isr = [1] }\n", "it asks for them; there are acks, recovered, elapsed"),
        (LOADED + "[[steps]]\nact = { kill = 'isr(orders/0)' }\n", "isr is none of them"),
        (LOADED + "[run]\nread_every_replica = true\n", "read as one; leave it out"),
    ],
)
def test_what_only_several_ids_have_is_refused_of_front_ends_in_one_line(text: str, wrong: str) -> None:
    (problem,) = front_ends.problems(fit(FRONT_ENDS + text))
    assert wrong in f"{problem.what}; {problem.remedy}"
    assert problem.of_machine, "another system can do it: a list of scenarios leaves it out with this reason"


def test_scenarios_of_front_ends_are_named_as_not_for_other_systems(there: Callable[..., None]) -> None:
    for name in ("front-end-crash", "front-end-pause", "front-end-stop"):
        assert why_left_out(for_its_system(drafted(name))) == (
            "not for reference: it strikes front ends, several addresses that answer with one node id: give them by "
            "--bootstrap"
        )


def test_addresses_with_one_id_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def registered(*_: Any, **__: Any) -> Any:
        raise OtherTopology("a:1, b:1 answer with one node id, 7: give front_ends = true")

    monkeypatch.setattr(fitting, "registered", registered)
    assert why_left_out(fit(THERE + LOADED)) == (
        "not for attached: a:1, b:1 answer with one node id, 7: give front_ends = true"
    )
