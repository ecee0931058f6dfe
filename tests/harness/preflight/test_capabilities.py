"""What a cluster cannot do is said before the run begins, with what would have to be given."""

import pytest

from harness.cluster.catalogue import cluster_kind
from harness.errors import Problem, Problems, UsageError
from harness.preflight import capabilities
from harness.preflight.capabilities import ignored
from harness.preflight.looking import for_its_system
from harness.scenario.file import Draft
from harness.scenario.model import Scenario

CLUSTER = '[cluster]\nsystem = "attached"\nbootstrap = "127.0.0.1:1"\n'
TOPIC = '[[topics]]\nname = "t"\n'
KILLS = '[attached]\nkill = "true"\nstart = "true"\n'
ISOLATES = '[attached]\nisolate = "true"\nrejoin = "true"\n'
CUTS = '[attached]\ncut = "true"\nheal = "true"\n'
GROUP = '[workload]\nname = "consumer_groups"\ngroup = "g"\n'


def parse(*parts: str) -> Scenario:
    return for_its_system(Draft("".join(parts), name="s", place="s.toml"))


def problems(scenario: Scenario) -> list[Problem]:
    return list(capabilities.problems(scenario, cluster_kind(scenario.cluster)))


def fault(kind: str, options: str = "") -> str:
    return f'[[faults]]\nkind = "{kind}"\nat = "1 s"\n{options}'


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((TOPIC, fault("crash")), "fault 'crash': the attached cluster cannot do that (CanCrash); give kill and start"),
        ((KILLS, TOPIC, fault("shut-down")), "give stop and start in [attached]"),
        ((KILLS, TOPIC, fault("isolate")), "give cut and heal, or isolate and rejoin in [attached]"),
        ((ISOLATES, TOPIC, fault("bridge")), "the isolate command sets a broker apart from all others"),
        ((CUTS, TOPIC, fault("cut-clients")), "no links of its clients"),
        ((CUTS, TOPIC, fault("cut-coordination")), "name it as node 100"),
        (
            (KILLS, TOPIC, "[[steps]]\nact = { pause = 1 }\n"),
            "s.toml:10: step 1, 'pause 1': the attached cluster cannot",
        ),
        ((KILLS, TOPIC, "[[steps]]\nwait = { log_end = { 1 = 3 } }\n"), "give read_log in [attached]"),
        ((CUTS, TOPIC, '[[steps]]\nact = { cut = ["clients>1"] }\n'), "no links of its clients"),
        ((CUTS, TOPIC, '[[steps]]\nact = { isolate = 1, from = "all" }\n'), "no links of its clients"),
        ((KILLS, TOPIC, GROUP, fault("crash", 'target = "coordinator(g)"\n')), "who coordinates a group"),
        ((KILLS, TOPIC, GROUP, '[[steps]]\nact = { kill = "all - coordinator(g)" }\n'), "who coordinates a group"),
        ((KILLS, TOPIC, GROUP, '[[steps]]\nact = { start = "coordinator(g)" }\n'), "who coordinates a group"),
        (
            (KILLS, TOPIC, '[[steps]]\nexpect = { configure = { "log.dirs" = 1 }, broker = 1, error = 40 }\n'),
            "it changes a setting of somebody else's whole broker",
        ),
        (
            (KILLS, TOPIC, '[[steps]]\nexpect = { configure = { "log.retention.ms" = 1 }, broker = 1 }\n'),
            "it changes a setting of somebody else's whole broker",
        ),
    ],
)
def test_a_fault_or_step_without_its_means_is_refused(parts: tuple[str, ...], message: str) -> None:
    assert any(message in str(problem) for problem in problems(parse(CLUSTER, *parts)))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            ("", TOPIC, fault("packet-loss", 'options = { loss = "1 %" }\n')),
            "a local cluster cannot do that (CanImpair",
        ),
        (("", TOPIC, fault("disk-full")), "a local cluster cannot do that (CanFillDisks); choose another --world"),
        (("[cluster]\ndisk_bytes = 1000\n", TOPIC), "[cluster] disk_bytes: a local cluster cannot limit its disks"),
        (('[cluster]\nnetwork = "open"\n', TOPIC), "[cluster] network: a local cluster has no network of its own"),
        (
            (CLUSTER + 'network = "open"\n', TOPIC),
            "network: the attached cluster has no network of its own; only --world",
        ),
        (('[cluster]\nworld = "docker"\n', TOPIC, "[[steps]]\nact = { fill = 1 }\n"), "give disk_bytes = 67108864 in"),
    ],
)
def test_harm_that_a_world_cannot_do_is_refused_with_the_one_that_can(parts: tuple[str, ...], message: str) -> None:
    (problem,) = problems(parse(*parts))
    assert message in str(problem)
    assert problem.place.file == "s.toml"


@pytest.mark.parametrize(
    "parts",
    [
        ('[cluster]\nworld = "docker"\ndisk_bytes = 1000\n', TOPIC, fault("disk-full")),
        ('[cluster]\nworld = "docker"\nnetwork = "open"\n', TOPIC),
        ("", TOPIC, fault("disk-damage")),
        (KILLS, TOPIC, fault("crash")),
        (ISOLATES, TOPIC, fault("isolate")),
        (CUTS, TOPIC, fault("bridge")),
        (CUTS, TOPIC, "[[steps]]\nact = { isolate = 1 }\n"),
        (CUTS, TOPIC, '[[steps]]\nact = { cut = ["2>1"] }\n'),
        (CUTS, '[attached.nodes]\n100 = "127.0.0.1:2"\n', TOPIC, fault("cut-coordination")),
    ],
)
def test_what_there_are_means_for_is_not_refused(parts: tuple[str, ...]) -> None:
    scenario = parse(CLUSTER if "[cluster]" not in parts[0] and parts[0] else "", *parts)
    assert problems(scenario) == []


def test_what_a_running_cluster_makes_meaningless_is_reported() -> None:
    settings = 'settings = { "replica.lag.time.max.ms" = 1 }\n'
    reported = ignored(parse(CLUSTER, settings, KILLS, TOPIC, "[coverage]\ntruncations = 1\n"))
    assert "broker settings are not applied (replica.lag.time.max.ms)" in reported[0]
    assert "truncations will not be met" in reported[1]
    assert ignored(parse(TOPIC)) == []


def test_the_means_of_somebodys_cluster_are_not_for_ours() -> None:
    with pytest.raises(UsageError, match="are for --system attached"):
        problems(parse(KILLS, TOPIC))


SIMULATED = '[cluster]\nworld = "simulated"\n'


@pytest.mark.parametrize("key", ['kind = "hold-requests"\nat = "1 s"', 'kind = "kill"\nwhen = "request(Fetch)"'])
def test_single_requests_are_seen_by_the_simulated_network_alone(key: str) -> None:
    holds = f"[[faults]]\n{key}\ntarget = 1\n"

    (problem,) = problems(parse(TOPIC, holds))

    assert "CanHoldRequests" in problem.what
    assert problem.remedy == "use --world simulated"
    assert problems(parse(SIMULATED, TOPIC, holds)) == []


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (("", TOPIC, fault("packet-loss", 'options = { loss = "1 %" }\n')), "(CanImpairPackets)"),
        (("", TOPIC, '[workload]\nclient = "kafka-python"\n'), "has threads, and the simulated world has none"),
    ],
)
def test_what_the_simulated_world_has_not_is_said_and_is_no_mistake_of_the_scenario(
    parts: tuple[str, ...], message: str
) -> None:
    (problem,) = problems(parse(SIMULATED, *parts))

    assert message in problem.what
    assert problem.of_machine, "the same scenario runs elsewhere"


def test_a_disk_of_the_simulated_world_can_be_full() -> None:
    assert problems(parse(SIMULATED, "disk_bytes = 67108864\n", TOPIC, fault("disk-full"))) == []


KAFKA = '[cluster]\nsystem = "kafka:4.3.1"\n'
RESULTS = '[[topics]]\nname = "results"\n'
GROUPS = '[workload]\nname = "consumer_groups"\n'
TRANSACTIONS = '[workload]\nname = "transactions"\ngroup = "g"\n'


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((KAFKA, TOPIC, GROUPS), "workload 'consumer_groups' needs a group, for example group = \"readers\""),
        (
            (KAFKA, TOPIC, RESULTS, TRANSACTIONS, 'output = "results"\nprocessors = 2\nclient = "aiokafka"\n'),
            "client 'aiokafka' sends offsets to a transaction without its generation (KIP-447)",
        ),
        (
            (KAFKA, TOPIC, GROUPS, 'group = "g"\ngroup_protocol = "consumer"\n'),
            "client 'kafka-python' has no members of group_protocol 'consumer' (KIP-848); use --client confluent-kafka",
        ),
        (
            (TOPIC, GROUPS, 'group = "g"\ngroup_protocol = "consumer"\nclient = "confluent-kafka"\n'),
            "group_protocol 'consumer' (KIP-848) needs Kafka 4.0 or newer",
        ),
        (
            (KAFKA, TOPIC, GROUPS, 'group = "g"\ngroup_protocol = "new"\n'),
            'group_protocol: a group\'s protocol is "classic" or "consumer" (KIP-848), not \'new\'',
        ),
        ((KAFKA, TOPIC, RESULTS, TRANSACTIONS, 'output = "results"\n'), "needs processors, an output among its topics"),
        ((KAFKA, TOPIC, TRANSACTIONS, 'output = "t"\nprocessors = 1\n'), "and another topic as input"),
        ((KAFKA, TOPIC, RESULTS, TRANSACTIONS, 'output = "r"\nprocessors = 1\n'), "output = 'r'"),
        ((KAFKA, TOPIC, "[workload]\nprocessors = 1\n"), "unknown key 'processors' in [workload]"),
    ],
)
def test_a_workload_of_groups_or_transactions_that_cannot_work_is_refused(parts: tuple[str, ...], message: str) -> None:
    try:
        (problem,) = problems(parse(*parts))
    except Problems as refused:  # by the workload itself, which owns its settings
        (problem,) = refused.problems
    assert message in str(problem)
    assert problem.place.file == "s.toml"


def test_workloads_of_groups_and_transactions_have_what_they_need_on_real_kafka() -> None:
    assert problems(parse(KAFKA, TOPIC, GROUPS, 'group = "g"\n')) == []
    for client in ("kafka-python", "aiokafka"):
        one = f'output = "results"\nprocessors = 1\nclient = "{client}"\n'
        assert problems(parse(KAFKA, TOPIC, RESULTS, TRANSACTIONS, one)) == []
