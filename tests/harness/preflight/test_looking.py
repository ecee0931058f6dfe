"""What can be known before a run is told before it: all at once, each with its place, and nothing is begun."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster.catalogue import traits_of
from harness.errors import HarnessError, Place, Problem, Problems
from harness.preflight import capabilities, machine, target
from harness.preflight.looking import all_ready, for_its_system, preflight, ready
from harness.scenario.file import Draft, drafted, seed_names, shipped_names
from harness.scenario.model import ClusterSpec, Scenario
from harness.scenario.places import Override, Places

TOPIC = '[[topics]]\nname = "orders"\npartitions = 2\n'
TEN_SECONDS = '[workload]\nduration = "10 s"\n'
PROBES = '[workload]\nname = "none"\n'


def parse(text: str, *overrides: str) -> Scenario:
    return for_its_system(Draft(text, name="s", place="s.toml", overrides=overrides))


def problems_of(text: str, *overrides: str) -> list[str]:
    try:
        scenario = parse(text, *overrides)
    except Problems as refused:
        return [str(problem) for problem in refused.problems]
    return [str(problem) for problem in preflight(scenario)]


def fault(rest: str, kind: str = "crash") -> str:
    return f'{TOPIC}{TEN_SECONDS}[[faults]]\nkind = "{kind}"\n{rest}\n'


def steps(*acts: str) -> str:
    return TOPIC + PROBES + "".join(f"[[steps]]\n{act}\n" for act in acts)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (fault('at = "10 s"'), "s.toml:8: fault 'crash': at 10 s the load is over, which lasts 10 s; make it sooner"),
        (fault('every = "5 s"\nfor = "12 s"'), "s.toml:9: fault 'crash': one of 12 s never fits into a load of 10 s"),
        (fault('every = "0 s"'), "s.toml:8: fault 'crash': every 0 s has no pause"),
        (fault('at = "1 s"\ndelay = "1 s"'), "s.toml:9: fault 'crash': delay is the time after a trigger"),
        (fault('at = "1 s"', "crush"), "s.toml:7: fault 'crush': unknown fault 'crush'; did you mean 'crash'?"),
        (fault('at = "1 s"\ntarget = "7"'), "s.toml:9: fault 'crash': target '7': there is no broker 7; brokers: 1, 2"),
        (fault('at = "1 s"\ntarget = "leader(ordres/0)"'), "there is no topic 'ordres'; did you mean 'orders'?"),
        (fault('at = "1 s"\ntarget = "leader(orders/2)"'), "topic 'orders' has no partition 2; it has 2, numbered"),
        (fault('at = "1 s"\ntarget = "leader"'), "leader is of a partition; write leader(orders/0)"),
        (fault('at = "1 s"\ntarget = "leadr(orders/0)"'), "s.toml:9: fault 'crash': target 'leadr(orders/0)': write a"),
        (fault('at = "1 s"\ntarget = "coordinator(gone)"'), "the load has no group or transactional id 'gone'; give"),
        (fault('at = "1 s"\ntarget = "random(4)"'), "random(4) of 3 brokers; at most random(3)"),
        (fault('at = "1 s"\ntarget = "random(x)"'), "random(x) is nobody; write random(1)"),
        (
            fault('at = "1 s"\ntarget = "all"', "halves"),
            "s.toml:9: fault 'halves': halves of 1, 2, 3: there is no such",
        ),
        (fault('at = "1 s"\ntarget = "random(3)"', "slow"), "slow of 1, 2, 3: there is no such link; name a target"),
        (fault('at = "1 s"', "halves"), "halves of 1, 2, 3: there is no such link; name a target that leaves somebody"),
        (fault('at = "1 s"', "slow"), "slow of 1, 2, 3: there is no such link; name a target that leaves somebody"),
        (fault('at = "1 s"', "isolate"), "isolate of 1, 2, 3: there is no such link"),
        (fault('at = "1 s"', "hold-fetches"), "hold-fetches of 1, 2, 3: there is no such link"),
        (
            fault('at = "1 s"\ntarget = "leader(our-orders/0)"'),
            "there is no topic 'our-orders'; did you mean 'orders'?",
        ),
        (fault('at = "1 s"\ntarget = 7'), "target '7': there is no broker 7; brokers: 1, 2"),
        (fault('at = "1 s"\ntarget = true'), "s.toml:9: target: a whole number is needed, not True"),
        (fault('at = "1 s"\ntarget = "1 - all"'), "target '1 - all': no node is left of it; subtract less"),
        (fault('when = "new_leader(order/0)"'), "s.toml:8: fault 'crash': there is no topic 'order'; did you mean"),
        (fault('when = "acks > 3"'), "s.toml:8: fault 'crash': trigger 'acks > 3': write \"acks >= 500\""),
        (fault('at = "1 s"\noptions = { links = ["2>9"] }', "cut-link"), "s.toml:9: fault 'cut-link': no link '2>9'"),
        (
            fault('at = "1 s"\noptions = { mode = "x" }', "isolate"),
            "s.toml:9: fault 'isolate': mode: one of hang, reset",
        ),
        (fault('at = "1 s"\noptions = { partition = 3 }', "disk-damage"), "topic 'orders' has no partition 3"),
        (fault('at = "1 s"') + "[[steps]]\nact = { kill = 1 }\n", "s.toml:9: there are [[faults]] and [[steps]]"),
        (TOPIC + "replication_factor = 4\n", "s.toml:4: topic 'orders': 4 replicas on 3 brokers; at most 3 are"),
        (TOPIC + "replication_factor = 0\n", "s.toml:4: topic 'orders': 0 replicas; a partition has at least 1"),
        ('[[topics]]\nname = "a"\npartitions = 0\n', "s.toml:3: topic 'a': 0 partitions; a topic has at least 1"),
        ('[[topics]]\nname = "a/b"\n', "s.toml:2: topic 'a/b': no name of a topic; letters, digits"),
        ('[[topics]]\nname = "__consumer_offsets"\n', "s.toml:2: topic '__consumer_offsets': an internal topic of"),
        ('[[topics]]\nname = "__transaction_state"\n', "s.toml:2: topic '__transaction_state': an internal topic"),
        ('[[topics]]\nname = "__share_group_state"\n', "s.toml:2: topic '__share_group_state': an internal topic"),
        (TOPIC + '[[topics]]\nname = "__cluster_metadata"\n', "s.toml:5: topic '__cluster_metadata': an internal"),
        (TOPIC + TOPIC, "s.toml:2: topic 'orders' is there twice; give one another name"),
        ('[[topics]]\nname = "a"\nassignment = [[1, 1]]\n', "s.toml:3: topic 'a': partition 0 has a replica twice"),
        ('[[topics]]\nname = "a"\nassignment = [[1], [1, 2]]\n', "its partitions have different numbers of replicas"),
        (
            steps('expect = { create_topic = "n", assignment = [[1, 2], [1]] }'),
            "s.toml:7: step 1, 'expect create topic n (assignment [[1, 2], [1]])': its partitions have",
        ),
        (steps('expect = { create_topic = "n", assignment = [[1, 1]] }'), "partition 0 has a replica twice"),
        (steps('expect = { create_topic = "n", assignment = [1] }'), "not [1]; write assignment = [[1, 2, 3]]"),
        (steps('act = { sleep = "1 s" }'), "produce, start, resume, free, heal, configure, elect, delete_topic"),
        (steps('act = "heal"'), "act is a table, for example act = { heal = … }"),
        (steps("act = { kill = 4 }"), "s.toml:7: step 1, 'kill 4': target 4: there is no broker 4; brokers: 1, 2, 3"),
        (steps('act = { cut = ["1>4"] }'), "s.toml:7: step 1, 'cut 1>4': no link '1>4'"),
        (steps('act = { produce = "a", topic = "x" }'), "there is no topic 'x'; topics: orders"),
        (steps('act = { produce = "a", partition = 2 }'), "topic 'orders' has no partition 2"),
        (steps('act = { delete_topic = "other" }'), "there is no topic 'other'"),
        (steps("wait = { isr = [1, 5] }"), "s.toml:7: step 1, 'wait isr [1, 5]': there is no broker 5"),
        (steps("wait = { isr = 1 }"), "isr is a list of broker ids, not 1"),
        (steps("wait = { leader = 8 }"), "there is no broker 8"),
        (steps("expect = { log_end = { 9 = 1 } }"), "there is no broker 9"),
        (steps("expect = { log_end = 9 }"), "log_end is a table by broker id, not 9"),
        (steps("wait = { leaders = [1, 2, 3] }"), "3 leaders of 2 partitions"),
        (steps("wait = { leader_seen_by = { 1 = 7 } }"), "there is no broker 7"),
        (steps('expect = { read = "a", from = 2 }'), "there is no client link 2; links of clients: 1 to 1"),
        (TOPIC + "[cluster]\nbrokers = [1, 2, 100]\n", "s.toml:5: 100 is no broker's id here; choose one from 0 to 99"),
        (TOPIC + "[workload]\nproducers = 90\n", "s.toml:4: 91 clients: a local run has addresses for at most 90"),
        (TOPIC + '[workload]\nclient = "franz"\n', "s.toml:5: unknown client 'franz'; known: aiokafka"),
        (TOPIC + '[workload]\nname = "nobody"\n', "s.toml:5: unknown workload 'nobody'"),
        (TOPIC + '[workload]\ntopics = ["x"]\n', "s.toml:5: the workload's topic 'x' is not in [[topics]]: ['orders']"),
    ],
)
def test_what_is_known_beforehand_is_reported_with_its_line_and_its_remedy(text: str, problem: str) -> None:
    found = problems_of(text)
    assert len(found) == 1, found
    assert problem in found[0]


@pytest.mark.parametrize(
    ("acts", "problem"),
    [
        (['act = { heal = "all" }'], "step 1, 'heal all': nothing is cut, slowed or impaired by then; leave it out"),
        (['act = { cut = ["1>2"] }', 'act = { heal = ["2>1"] }'], "step 2, 'heal 2>1': no cut, slow or impaired"),
        (['act = { cut = ["1>2"] }', 'act = { heal = "all" }', 'act = { heal = "all" }'], "s.toml:11: step 3"),
        (["act = { resume = 1 }"], "no pause is in force by then; put it after the pause that it ends"),
        (["act = { pause = 2 }", "act = { resume = 1 }"], "no pause of broker 1 is in force by then"),
        (["act = { kill = 1 }", "act = { kill = [1, 2] }"], "step 2, 'kill [1, 2]': broker 1 is down by then"),
        (["act = { stop = 1 }", "act = { pause = 1 }"], "broker 1 is down by then"),
        (['act = { produce = "a" }', 'act = { elect = "preferred" }'], "nothing has moved a leader by then"),
    ],
)
def test_a_step_that_has_nothing_to_do_is_reported(acts: list[str], problem: str) -> None:
    (found,) = problems_of(steps(*acts))
    assert problem in found


@pytest.mark.parametrize(
    "acts",
    [
        ['act = { isolate = "leader(orders/0)" }', 'act = { heal = ["1>2"] }'],
        ['act = { cut = ["1>2", "clients>3"] }', 'act = { heal = ["clients>3", "n1>n2"] }'],
        ['act = { cut = ["1>2"], for = "1 s" }', 'act = { heal = "all" }'],
        ['act = { kill = "leader(orders/0)" }', "act = { wipe = 1 }", 'act = { start = "all" }', "act = { kill = 1 }"],
        ['act = { pause = "controller" }', "act = { resume = 2 }"],
        ["act = { kill = 1 }", "act = { start = 1 }", 'act = { elect = "preferred" }'],
        ["act = { damage = 1 }", "act = { wipe = 1 }"],
        ["act = { kill = 100 }", "act = { start = 100 }"],
        ["wait = { leader = -1 }", 'expect = { elect = "preferred", error = 84 }'],
        ['expect = { produce = "a", topic = "none", error = 3 }'],
        ['expect = { create_topic = "more" }', 'expect = { fetch = 0, topic = "more", broker = 1 }'],
        ['act = { delete_topic = "orders" }', 'act = { create_topic = "orders" }'],
    ],
)
def test_what_only_the_run_can_tell_is_left_to_it(acts: list[str]) -> None:
    assert problems_of(steps(*acts)) == []


def test_every_problem_is_told_at_once_in_the_order_of_the_file() -> None:
    text = (
        TOPIC
        + "replication_factor = 9\n"
        + TEN_SECONDS
        + '[[faults]]\nkind = "crash"\nat = "40 s"\ntarget = "5"\n[[faults]]\nkind = "pausse"\nat = "1 s"\n'
    )
    lines = [problem.place.line for problem in preflight(parse(text))]
    assert lines == [4, 9, 10, 12]


def test_every_mistake_of_a_file_is_told_at_once() -> None:
    text = (
        TOPIC + '[workload]\nacsk = 1\nduration = "x"\n[[faults]]\nkind = "crash"\n[[steps]]\nwait = { leadre = 1 }\n'
    )
    with pytest.raises(Problems) as refused:
        parse(text, "workload.acks=9", "nonsense")
    assert [str(problem.place) for problem in refused.value.problems] == [
        "--set nonsense",
        "--set workload.acks=9",
        "s.toml:5",
        "s.toml:6",
        "s.toml:7",
        "s.toml:9",
    ]


def test_what_an_option_said_is_told_of_the_option() -> None:
    overrides = [Override("cluster.system=kafka:9.9", "--system kafka:9.9"), "topics.orders.replication_factor=5"]
    with pytest.raises(Problems) as refused:
        parse(TOPIC, *overrides)
    assert str(refused.value).startswith("--system kafka:9.9: Kafka '9.9' is not known")
    assert problems_of(TOPIC, *overrides[1:]) == [
        "--set topics.orders.replication_factor=5: topic 'orders': 5 replicas on 3 brokers; at most 3 are possible; "
        "[cluster] brokers says who there is"
    ]


def test_a_kafka_that_was_not_fetched_is_reported_before_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(Problems, match=r"Kafka 4\.3\.1 is not on this machine; fetch it once: kafka-chaos fetch-kafka"):
        ready("no-faults", overrides=[Override("cluster.system=kafka:4.3.1", "--system kafka:4.3.1")])


def test_no_engine_and_no_java_are_told_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine._why_no_engine.cache_clear()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    java, docker = problems_of(TOPIC, "cluster.world=docker")
    assert java.startswith(f"JAVA_HOME={tmp_path} holds no bin/java")
    assert docker.startswith("--set cluster.world=docker: no Docker engine answers")
    without_checks = parse(TOPIC, "cluster.world=docker")
    assert len(preflight(without_checks, checks=False)) == 1


def test_several_are_told_together_and_what_is_true_of_all_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    on_kafka = [Override("cluster.system=kafka:4.3.1", "--system kafka:4.3.1")]
    wanted = [("no-faults", on_kafka), ("nobody", []), ("leader-crash-acks-all", on_kafka)]
    with pytest.raises(Problems) as refused:
        all_ready(wanted)
    first, second = refused.value.problems
    assert "fetch-kafka 4.3.1" in str(first)
    assert "unknown scenario 'nobody'" in str(second)


def test_a_target_alone_is_looked_at_by_the_same_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (problem,) = target.problems(ClusterSpec(system="kafka:3.9.1"), Places(), checks=False)
    assert "fetch-kafka 3.9.1" in str(problem)
    assert target.problems(ClusterSpec(), Places()) == []


MISTAKEN_SETTINGS = f"""{TOPIC}settings = {{ "min.insync.replica" = 1, "retention.ms" = "an hour" }}
{TEN_SECONDS}
[cluster]
flaws = ["truncate-to-high-watermark-at-stat"]
[cluster.settings]
"log.dirs" = "/a,/b"
"broker.id" = 7
"min.insync.replicas" = "two"
"unclean.leader.election.enable" = "yes"
"retention.ms" = 1
"no.such.key" = 1
"listener.name.internal.own" = "anything"
"log.initial.task.delay.ms" = 500
"""


def test_settings_that_no_kafka_has_or_that_are_the_harness_s_own_are_told_with_their_line() -> None:
    assert problems_of(MISTAKEN_SETTINGS) == [
        "s.toml:4: topic 'orders', setting 'min.insync.replica': no Kafka has such a topic's setting; did you mean "
        "'min.insync.replicas'?",
        "s.toml:4: topic 'orders', setting 'retention.ms': a whole number is needed (long), not 'an hour'",
        "s.toml:9: [cluster] flaws: the reference has no flaw 'truncate-to-high-watermark-at-stat'; did you mean "
        "'truncate-to-high-watermark-at-start'?",
        "s.toml:11: [cluster] settings, 'log.dirs': the harness gives every node its own; leave it out: a broker has "
        "one log directory here, on the disk that faults act on",
        "s.toml:12: [cluster] settings, 'broker.id': the harness gives every node its own; leave it out: [cluster] "
        "brokers, layout and --world decide it",
        "s.toml:13: [cluster] settings, 'min.insync.replicas': a whole number is needed (int), not 'two'",
        "s.toml:14: [cluster] settings, 'unclean.leader.election.enable': true or false is needed (boolean), not 'yes'",
        "s.toml:15: [cluster] settings, 'retention.ms': no Kafka has it as a broker's setting; it is a topic's: "
        "[[topics]] settings",
        "s.toml:16: [cluster] settings, 'no.such.key': no Kafka has such a broker's setting",
    ]


@pytest.mark.parametrize(
    ("system", "lines"),
    [
        ("kafka:0.10.2.2", ["Kafka 0.10.2.2 has no broker.session.timeout.ms, transaction.max.timeout.ms: no effect"]),
        ("kafka:4.3.1", ["Kafka 4.3.1 has no log.message.format.version: no effect"]),
        ("reference", []),
    ],
)
def test_settings_that_only_other_releases_have_are_said_to_have_no_effect(system: str, lines: list[str]) -> None:
    settings = {
        "transaction.max.timeout.ms": "1",
        "broker.session.timeout.ms": "1",
        "min.insync.replicas": "1",
        "zookeeper.session.timeout.ms": "1",
        "log.message.format.version": "2.8",
    }
    cluster = ClusterSpec(system=system, settings=settings)
    scenario = replace(parse(TOPIC + TEN_SECONDS), cluster=cluster, traits=traits_of(cluster))
    assert capabilities.ignored(scenario) == lines


SHIPPED = [*shipped_names(), *seed_names()]


@pytest.mark.parametrize("system", ["reference", "kafka:4.3.1", "kafka:3.9.1", "kafka:2.8.2"])
def test_nothing_is_known_against_any_shipped_scenario(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "problems", lambda *_, **__: [])  # of this machine's jars nothing is asked
    for name in SHIPPED:
        scenario = for_its_system(drafted(name, overrides=[f"cluster.system={system}"]))
        if not scenario.not_here:
            assert preflight(scenario) == [], name


def test_a_problem_is_a_line_with_place_and_remedy() -> None:
    problem = Problem(place=Place(file="s.toml", line=3), what="no", remedy="do")
    assert str(problem) == "s.toml:3: no; do"
    assert issubclass(Problems, HarnessError)


ATTACHED = '[cluster]\nsystem = "attached"\nbootstrap = "{0}"\n{1}' + TOPIC


@pytest.mark.parametrize("digits", ["²", "9" * 5000, "--5", "٣", "1_0"])
@pytest.mark.parametrize(
    "text",
    [
        fault('at = "1 s"\ntarget = "{0}"'),
        fault('at = "1 s"\ntarget = "leader(orders/{0})"'),
        fault('at = "1 s"\ntarget = "broker({0})"'),
        fault('at = "1 s"\ntarget = "random({0})"'),
        fault('when = "new_leader(orders/{0})"'),
        steps('act = {{ kill = "{0}" }}'),
        steps('until = {{ log_end = {{ "{0}" = 1 }}, topic = "orders" }}'),
        ATTACHED.format("localhost:{0}", ""),
        ATTACHED.format("localhost:1", '[attached]\nnodes = {{ "{0}" = "h:1" }}\n'),
    ],
)
def test_digits_that_are_no_number_are_told_like_anything_else_that_is_none(text: str, digits: str) -> None:
    try:
        problems = problems_of(text.format(digits))
    except HarnessError as refused:
        problems = [str(refused)]
    assert problems
    assert all("\n" not in problem for problem in problems)
