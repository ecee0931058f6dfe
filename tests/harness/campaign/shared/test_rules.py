"""Which runs may share a cluster, and after which one a cluster is not used again."""

import pytest

from harness.campaign.shared.rules import HEALTH_TOPIC, sharing_of, with_own_group
from harness.scenario.file import parse
from harness.scenario.model import Scenario
from harness.scenario.written import written_out
from harness.systems import traits_of


def scenario(text: str = "", *, topic: str = "orders") -> Scenario:
    whole = f'[[topics]]\nname = "{topic}"\n{text}'
    return parse(whole, name="test", place="test.toml", traits_of=traits_of)


def fault(kind: str, target: str = "leader(orders/0)") -> str:
    return f'[[faults]]\nkind = "{kind}"\ntarget = "{target}"\nat = "1 s"\nfor = "1 s"\n'


def key(text: str) -> str:
    sharing = sharing_of(scenario(text))
    assert sharing is not None
    return sharing.key


def test_runs_share_a_cluster_whatever_their_faults_and_none_of_other_settings_versions_flaws_or_clients() -> None:
    assert key(fault("kill")) == key(fault("pause", "2")) == key("")
    others = [
        "[cluster]\nbrokers = [3, 1, 2]\n",
        '[cluster.settings]\n"replica.lag.time.max.ms" = 1500\n',
        '[cluster]\nflaws = ["acks-before-replication"]\n',
        '[cluster]\nsystem = "kafka:4.3.1"\n',
        "[workload]\nproducers = 3\n",
    ]
    assert len({key(each) for each in ("", *others)}) == len(others) + 1


@pytest.mark.parametrize(
    "text",
    [
        '[cluster]\nworld = "docker"\n',
        '[cluster]\nsystem = "attached"\nbootstrap = "127.0.0.1:9092"\n',
        '[cluster]\nsystem = "kafka:1.1.1"\n',
        "[[steps]]\nwait = { controller_epoch = 2 }\n",
        "[[steps]]\nexpect = { controller = 1 }\n",
    ],
)
def test_a_run_that_a_used_cluster_could_mislead_has_one_of_its_own(text: str) -> None:
    assert sharing_of(scenario(text)) is None


def test_a_run_with_the_topic_of_the_health_check_has_a_cluster_of_its_own() -> None:
    assert sharing_of(scenario(topic=HEALTH_TOPIC)) is None


@pytest.mark.parametrize("kind", ["wipe", "power-loss", "damage"])
def test_a_cluster_that_lost_data_is_not_used_again(kind: str) -> None:
    sharing = sharing_of(scenario(fault(kind)))
    assert sharing is not None
    assert sharing.spends


def test_a_cluster_is_not_used_again_after_transactions() -> None:
    text = (
        '[[topics]]\nname = "out"\n[workload]\nname = "transactions"\ngroup = "g"\noutput = "out"\nprocessors = 1\n'
        f"{fault('kill')}"
    )
    sharing = sharing_of(scenario(text))
    assert sharing is not None
    assert sharing.spends == "a transaction may be open"


def test_only_a_scenario_that_names_brokers_by_number_needs_the_controller_where_it_was() -> None:
    needs = {target: sharing_of(scenario(fault("kill", target))) for target in ("leader(orders/0)", "1", "controller")}
    assert {target: found is not None and found.as_started for target, found in needs.items()} == {
        "leader(orders/0)": False, "1": True, "controller": False,
    }  # fmt: skip


def test_a_later_run_on_a_cluster_has_a_group_of_its_own_and_its_scenario_says_so() -> None:
    of_a_group = scenario('[workload]\nname = "consumer_groups"\ngroup = "readers"\n')
    assert with_own_group(of_a_group, 1) == of_a_group
    later = parse(written_out(with_own_group(of_a_group, 2)), name="test", place="test.toml", traits_of=traits_of)
    assert later.workload.facts.group == "readers-2"
    assert with_own_group(scenario(), 2) == scenario()
