"""Drawn schedules: scenarios of their own, with nothing known against them, the same again for the same arguments."""

from collections import Counter

import pytest

from harness.campaign.drawing import PROFILES, draw, profile, profiles
from harness.campaign.situations import Outline, Situation, Situations
from harness.errors import UsageError
from harness.preflight.looking import preflight
from harness.scenario.file import parse
from harness.scenario.model import Scenario
from harness.scenario.written import written_out

DRAWN = 300
SYSTEMS = ("reference", "kafka:4.3.1")
RETURN_S = 1.2  # half a second for a look at the other disks (faults/disks/spare.py), and the start of a process


def drawn(name: str, system: str, count: int = DRAWN) -> list[Scenario]:
    return [draw(profile(name), system=system, seed=5, number=number) for number in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("name", profiles())
def test_every_drawn_schedule_is_a_scenario_with_nothing_known_against_it(name: str, system: str) -> None:
    for scenario in drawn(name, system):
        assert preflight(scenario, checks=False) == [], scenario.source
        again = parse(written_out(scenario), name=scenario.name, place="again.toml")
        assert written_out(again) == scenario.source == written_out(scenario)
        assert again == scenario
        assert scenario.faults
        assert scenario.coverage == {}, "a drawn run is never vacuous"


@pytest.mark.parametrize("name", profiles())
def test_the_same_arguments_draw_the_same_schedule_and_others_another(name: str) -> None:
    sources = [scenario.source for scenario in drawn(name, "reference", 20)]

    assert [scenario.source for scenario in drawn(name, "reference", 20)] == sources
    assert len(set(sources)) == 20
    assert draw(profile(name), system="reference", seed=6, number=0).source != sources[0]


def test_a_run_leaves_out_fault_kinds_that_others_have() -> None:
    kinds = [{fault.kind for fault in scenario.faults} for scenario in drawn("replication", "reference", 100)]

    assert set.union(*kinds) == set(PROFILES["replication"].faults)
    assert all(len(each) < len(PROFILES["replication"].faults) for each in kinds)


def test_most_runs_have_a_fault_that_follows_from_what_another_brings_about() -> None:
    scenarios = drawn("replication", "reference", 100)
    linked = [any(" then " in (fault.when or "") for fault in scenario.faults) for scenario in scenarios]
    causes = {
        word for scenario in scenarios for fault in scenario.faults for word in (fault.when or "").split(" then ")[1:]
    }

    assert sum(linked) > 70
    for cause in ("new_leader(", "isr_shrinks(", "isr_grows(", "truncated(", "restarted", "acks >= +"):
        assert any(word.startswith(cause) for word in causes), cause


def test_each_partition_of_a_topic_has_another_order_of_the_replicas() -> None:
    assignments = [scenario.topics[0].assignment or () for scenario in drawn("replication", "reference", 100)]

    assert {len(rows) for rows in assignments} == {1, 2, 3, 6}
    for rows in assignments:
        assert len(set(rows)) == len(rows)
        assert len({row[0] for row in rows}) == min(3, len(rows)), "preferred leaders are spread"


def test_replicas_are_made_to_lag_for_less_and_for_longer_than_the_isr_allows() -> None:
    lengths = []
    for scenario in drawn("replication", "reference", 100):
        lag_s = int(scenario.cluster.settings["replica.lag.time.max.ms"]) / 1000
        lengths += [fault.for_s / lag_s for fault in scenario.faults if fault.kind == "hold-fetches" and fault.for_s]

    assert sum(length < 1 for length in lengths) > len(lengths) / 5
    assert sum(length > 1 for length in lengths) > len(lengths) / 5


def test_a_leader_is_left_alone_with_its_clients_until_it_and_the_others_have_acted() -> None:
    alone = 0
    for scenario in drawn("replication", "reference", 100):
        patience_ms = max(
            1.5 * int(scenario.cluster.settings["replica.lag.time.max.ms"]),
            int(scenario.cluster.settings.get("zookeeper.session.timeout.ms", 2500)),
        )
        alone += any(
            fault.options.get("from") == "cluster"
            and "leader(" in fault.target
            and 1000 * (fault.for_s or 0) > patience_ms
            for fault in scenario.faults
        )

    assert alone >= 10


def test_whoever_lost_records_is_back_before_anybody_can_have_noticed() -> None:
    lost = 0
    for scenario in drawn("replication", "reference", 100):
        session_s = int(scenario.cluster.settings.get("zookeeper.session.timeout.ms", 2500)) / 1000
        for fault in scenario.faults:
            if fault.kind == "power-loss":
                lost += 1
                assert fault.for_s is not None
                assert fault.for_s + RETURN_S < session_s

    assert lost


def test_a_new_leader_is_taken_away_as_soon_as_it_is_seen() -> None:
    taking = ("kill", "restart", "stop", "power-loss")
    at_once = [
        fault
        for scenario in drawn("replication", "reference", 100)
        for fault in scenario.faults
        if fault.kind in taking and "then new_leader(" in (fault.when or "") and fault.delay_s <= 0.05
    ]

    assert sum((fault.target or "").startswith("leader(") for fault in at_once) > 20


def test_links_are_slow_all_the_while_in_every_fourth_run_and_never_in_a_quick_one() -> None:
    def slow(name: str) -> list[int]:
        return [
            number
            for number, scenario in enumerate(drawn(name, "reference", 40))
            for fault in scenario.faults
            if "links" in fault.options and fault.for_s and fault.for_s > 0.6 * scenario.workload.duration_s
        ]

    runs = slow("replication")
    assert len(runs) == 10
    assert {number % 4 for number in runs} == {runs[0] % 4}
    assert slow("quick") == []


@pytest.mark.parametrize("name", ["elections", "replication", "everything"])
def test_an_unclean_election_is_asked_for_only_where_the_topic_allows_it_at_all_times(name: str) -> None:
    key, asking = "unclean.leader.election.enable", 0
    for scenario in drawn(name, "reference"):
        changed = [fault.options.get("settings", {}) | fault.options.get("afterwards", {}) for fault in scenario.faults]
        if any(fault.kind == "unclean-election" for fault in scenario.faults):
            asking += 1
            assert scenario.topics[0].settings[key] == "true"
            assert all(settings.get(key, "true") == "true" for settings in changed)
    assert asking


def test_settings_that_show_flaws_are_drawn_both_ways() -> None:
    scenarios = drawn("replication", "reference", 100)
    topics = [scenario.topics[0].settings for scenario in scenarios]

    assert {settings["min.insync.replicas"] for settings in topics} == {"1", "2"}
    assert {settings["unclean.leader.election.enable"] for settings in topics} == {"true", "false"}
    assert any("retention.bytes" in settings or "retention.ms" in settings for settings in topics)
    assert {scenario.workload.acks for scenario in scenarios} == {"1", "all"}
    assert {scenario.workload.idempotence for scenario in scenarios} == {True, False}


def test_groups_and_transactions_are_drawn_on_both_systems() -> None:
    for system in ("reference", "kafka:4.3.1"):
        loads = {each.workload.name for each in drawn("clients", system, 60)}
        assert loads == {"produce_and_poll", "consumer_groups", "transactions"}


def test_topics_that_compact_are_drawn_with_keys_and_elsewhere_none() -> None:
    scenarios = drawn("everything", "reference", 100)
    policies = {
        (each.topics[0].settings.get("cleanup.policy", "delete"), getattr(each.workload, "keys", 0) > 0)
        for each in scenarios
    }
    assert policies == {("delete", False), ("compact", True), ("compact,delete", True)}


def test_an_old_kafka_is_asked_for_nothing_that_it_has_not() -> None:
    for scenario in drawn("everything", "kafka:0.10.2.2", 40):
        assert not scenario.workload.idempotent
        assert scenario.workload.client == "kafka-python"


def test_a_profile_that_nobody_knows_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="replication"):
        profile("replicaton")


# -- what was seldom reached ----------------------------------------


def reached_often(scenarios: list[Scenario]) -> Situations:
    """Every kill of a leader, whatever was before it."""
    outlines = [Outline(kind="kill", role="leader", before=before) for before in ("", "cut", "kill", "pause", "slow")]
    return Situations(
        reached=Counter(
            {
                Situation(
                    kind=each.kind,
                    role=each.role,
                    isr_size=3,
                    epoch_change=False,
                    in_flight="records",
                    before=each.before,
                ): 1000
                for each in outlines
            }
        )
    )


def leaders_killed(scenarios: list[Scenario]) -> float:
    faults = [fault for scenario in scenarios for fault in scenario.faults]
    hit = [fault for fault in faults if fault.kind in ("kill", "restart") and (fault.target or "").startswith("leader")]
    return len(hit) / len(faults)


def test_what_was_reached_often_is_planned_less_and_the_same_counts_draw_the_same() -> None:
    plain = drawn("replication", "reference", 60)
    seldom = reached_often(plain)

    def with_counts() -> list[Scenario]:
        of = profile("replication")
        return [draw(of, system="reference", seed=5, number=number, seldom=seldom) for number in range(60)]

    chosen = with_counts()
    assert leaders_killed(chosen) < 0.8 * leaders_killed(plain)
    assert [scenario.source for scenario in with_counts()] == [scenario.source for scenario in chosen]


@pytest.mark.parametrize("name", [name for name in profiles() if name != "requests"])
def test_the_simulated_world_gets_the_same_schedules_and_what_it_can_do(name: str) -> None:
    of = profile(name)
    pairs = [
        (
            draw(of, system="reference", seed=5, number=number),
            draw(of, system="reference", seed=5, number=number, world="simulated"),
        )
        for number in range(25)
    ]

    for here, simulated in pairs:
        assert preflight(simulated, checks=False) == [], simulated.source
        assert simulated.workload.client == "aiokafka"
        assert simulated.workload.name == here.workload.name
        assert (simulated.faults, simulated.topics) == (here.faults, here.topics)


def test_single_requests_are_held_where_nodes_are_simulated_and_a_fault_waits_for_one_of_them() -> None:
    of = profile("requests")
    simulated = [draw(of, system="reference", seed=5, number=number, world="simulated") for number in range(25)]
    here = [draw(of, system="reference", seed=5, number=number) for number in range(25)]

    held = {fault.options["request"] for each in simulated for fault in each.faults if fault.kind == "hold-requests"}
    assert all(preflight(each, checks=False) == [] for each in (*simulated, *here))
    assert {"AlterPartition", "LeaderAndIsr"} <= held
    waited_for = [fault.when or "" for each in simulated for fault in each.faults]
    assert any(f"then request({request})" in when for request in held for when in waited_for)
    assert not {fault.kind for each in here for fault in each.faults} & {"hold-requests", "power-off", "kill-at-write"}
