"""Scenario files are read strictly, written out in full, and described key by key."""

import dataclasses
import re
from pathlib import Path

import pytest

from faults import catalogue, triggers
from harness.errors import UsageError
from harness.ports.faults import ACTS, Fault
from harness.preflight import plan, target
from harness.preflight.looking import for_its_system
from harness.scenario import file as scenario_file
from harness.scenario import keys as scenario_keys
from harness.scenario import steps as scenario_steps
from harness.scenario import workloads
from harness.scenario.model import Scenario, Traits
from harness.scenario.overrides import attached_overrides
from harness.scenario.written import written_out
from harness.values import keys_of
from harness.verdict import COVERAGE_CONDITIONS

MINIMAL = '[[topics]]\nname = "t"\n'
SHIPPED = [*scenario_file.shipped_names(), *scenario_file.seed_names()]
DOCS = Path(__file__).parents[2] / "docs" / "scenarios.md"


def parse(text: str, *overrides: str) -> Scenario:
    return scenario_file.parse(text, name="s", place="s.toml", overrides=overrides)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_scenario_loads_and_its_written_out_form_is_the_same_scenario(name: str) -> None:
    scenario = scenario_file.load(name)
    again = scenario_file.parse(written_out(scenario), name=scenario.name, place="written")

    def comparable(one: Scenario) -> dict[str, object]:
        fields = dataclasses.asdict(one)
        del fields["source"], fields["places"], fields["given"]
        del fields["not_here"]  # written out it is of one system already
        for step in fields["steps"]:
            del step["line"]
        return fields

    assert comparable(again) == comparable(scenario)


SYSTEMS = ("reference", "kafka:4.3.1", "kafka:3.9.1", "kafka:2.8.2", "kafka:1.1.1", "kafka:0.10.2.2")


@pytest.mark.parametrize("world", ["local", "docker"])
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_scenario_is_whole_on_every_system_it_is_for(name: str, system: str, world: str) -> None:
    overrides = [f"cluster.system={system}", f"cluster.world={world}"]
    scenario = for_its_system(scenario_file.drafted(name, overrides=overrides))
    if scenario.not_here:
        return
    # The layout exists there, and no flaw is asked of real Kafka.
    assert target.kind_of(scenario.cluster) is not None
    again = scenario_file.parse(written_out(scenario), name=name, place="written")
    assert (again.cluster, again.expect, again.coverage) == (scenario.cluster, scenario.expect, scenario.coverage)
    assert [step.body for step in again.steps] == [step.body for step in scenario.steps]
    down = downs_and_ups(scenario)
    assert down == set(), "what was killed, stopped or paused is brought back by a step"


def downs_and_ups(scenario: Scenario) -> set[str]:
    """Targets that the steps left down, by the words that name them."""
    down: set[str] = set()
    for step in scenario.steps:
        word, value = next(iter(step.body.items()))
        named = {str(each) for each in (value if isinstance(value, list) else [value])}
        if step.kind == "act" and word in ("kill", "stop", "pause") and "for" not in step.body:
            down |= named
        elif step.kind == "act" and word in ("start", "resume"):
            roles = {each for each in down if not each.isdigit()}
            down -= named if named & down else roles  # a number that was not taken down is who had the role
    return down


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_scenario_opens_with_its_story_and_states_its_outcome_and_coverage(name: str) -> None:
    scenario = scenario_file.load(name)
    assert len(scenario.story) > 100
    assert "[expect]" in scenario.source
    assert scenario.coverage, "without a coverage condition a run that did nothing would pass"


@pytest.mark.parametrize("name", SHIPPED)
def test_every_name_a_shipped_scenario_uses_is_known_before_a_run(name: str) -> None:
    scenario = scenario_file.load(name)
    assert list(plan.names(scenario, plan.topology_of(scenario))) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MINIMAL + "[workload]\nacsk = 1\n", "s.toml:4: unknown key 'acsk' in [workload]; did you mean 'acks'?"),
        (MINIMAL + "[clutser]\n", "s.toml:3: unknown section [clutser]; did you mean 'cluster'?"),
        (MINIMAL + "[[steps]]\nwait = { leadre = 1 }\n", "s.toml:3: unknown wait 'leadre'; did you mean 'leader'?"),
        (
            MINIMAL + "[[steps]]\nact = { start = 1, whith = 2 }\n",
            "s.toml:3: unknown key 'whith' beside 'start'; known: none",
        ),
        (MINIMAL + "[coverage]\nelection = 1\n", "s.toml:4: unknown key 'election' in [coverage]; did you mean"),
        (MINIMAL + '[workload]\nduration = "5 parsecs"\n', "s.toml:4: duration: a duration is written"),
        (MINIMAL + '[[faults]]\nkind = "crash"\n', "s.toml:3: a fault needs exactly one of at"),
        ('[[topics]]\nname = "t"\nassignment = [[7]]\n', "s.toml:3: the assignment names brokers [7]"),
        ("[cluster]\n", "s.toml:1: a scenario needs at least one [[topics]]"),
        ("topics = 3\n", "write [[topics]]"),
        ("= 3\n", "s.toml: not TOML"),
    ],
)
def test_a_mistake_is_one_line_with_the_place_and_the_remedy(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        ("{ kil = 1 }", "unknown act 'kil'; did you mean 'kill'?"),
        ("{ prodce = 'x' }", "unknown act 'prodce'; did you mean 'produce'?"),
        ("{ kill = 1, whith = 2 }", "fault 'kill' has no option 'whith'; its options: none"),
        ("{ cut = '2>1' }", "fault 'cut': links: a list of links is needed"),
        ("{ cut = [2, 1] }", "fault 'cut': links: a list of links is needed"),
        ("{ isolate = 1, from = 2 }", "from: one of peers, coordination, cluster, clients, all is needed"),
        ("{ pause = 1, for = 'a while' }", "for: a duration is written"),
        ("{ kill = 'laeder(t/0)' }", "target 'laeder(t/0)': write a broker id"),
        ("{ resume = 'laeder(t/0)' }", "target 'laeder(t/0)': write a broker id"),
        ("{ heal = 'everything' }", "unknown fault 'everything'"),
        ("{ heal = 'pause' }", "heal does not undo 'pause'; resume does"),
    ],
)
def test_a_fault_of_a_step_that_makes_no_sense_is_refused_before_a_run(act: str, message: str) -> None:
    scenario = parse(MINIMAL + f"[[steps]]\nact = {act}\n")
    rows = [str(problem) for problem in plan.names(scenario, plan.topology_of(scenario))]
    assert any(message in each for each in rows), rows
    assert all("\n" not in each for each in rows)


def test_a_stored_scenario_is_read_though_nobody_here_knows_its_faults() -> None:
    stored = MINIMAL + '[[faults]]\nkind = "clock-skew"\nat = "1 s"\n[[steps]]\nact = { clock-skew = 1, by = "1 s" }\n'
    scenario = parse(stored + "[coverage]\nfaults_of_clock_skew = 1\n")
    assert scenario.faults[0].kind == "clock-skew"
    assert scenario.steps[0].text == "clock-skew 1 (by 1 s)"
    assert [wrong.what.split(";")[0] for wrong in plan.names(scenario, plan.topology_of(scenario))] == [
        "fault 'clock-skew': unknown fault 'clock-skew'",
        "step 1, 'clock-skew 1 (by 1 s)': unknown act 'clock-skew'",
    ]


def test_set_changes_one_thing_and_is_held_as_strictly_as_the_file() -> None:
    text = MINIMAL + 'settings = { "min.insync.replicas" = 2 }\n'
    assert parse(text, "workload.acks=1").workload.acks == "1"
    assert parse(text, "min.insync.replicas=1").topics[0].settings == {"min.insync.replicas": "1"}
    assert parse(text, "replica.lag.time.max.ms=9").cluster.settings == {"replica.lag.time.max.ms": "9"}
    assert parse(text, "topics.t.partitions=3").topics[0].partitions == 3
    for wrong in ("workload.akcs=1", "nonsense", "topics.u.partitions=3", "word=1"):
        with pytest.raises(UsageError):
            parse(text, wrong)


VARIANTS = """[expect]
verdict = "pass"
[expect.findings]
required = [{ check = "lost-write" }]
[[steps]]
wait = { acks = 1 }
on = "not kraft"
[[steps]]
wait = { acks = 2 }
[[on]]
system = ["kafka >= 4", "docker"]
why = "it remembers eligible leaders"
expect = { verdict = "violation" }
coverage = { elections = "= 0" }
[[on]]
system = "kafka < 0.11"
why = "it had no leader epochs"
runs = false
"""
KRAFT = Traits(kind="kafka", coordination="kraft", version=(4, 3, 1))


def of(traits: Traits, *overrides: str, text: str = MINIMAL + VARIANTS) -> Scenario:
    return scenario_file.Draft(text, name="s", place="s.toml", overrides=overrides).scenario(traits)


def test_what_differs_from_system_to_system_is_settled_when_the_file_is_read() -> None:
    reference, kraft, old = of(Traits()), of(KRAFT), of(Traits(kind="kafka", version=(0, 10, 2, 2)))
    assert [step.body["acks"] for step in reference.steps] == [1, 2]
    assert (reference.expect.verdict, dict(reference.coverage), reference.not_here) == ("pass", {}, "")
    assert [step.body["acks"] for step in kraft.steps] == [2]
    assert (kraft.expect.verdict, dict(kraft.coverage)) == ("violation", {"elections": "= 0"})
    assert [pattern.check for pattern in kraft.expect.required] == ["lost-write"], "only what differs is laid over"
    assert old.not_here == "it had no leader epochs"
    assert of(Traits(world="docker")).expect.verdict == "violation"
    assert of(KRAFT, "expect.verdict=vacuous").expect.verdict == "vacuous", "the user's word goes before a variant's"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[on]]\nsystem = "krafft"\nwhy = "x"\n', "s.toml:4: system: 'krafft' is no system"),
        ('[[on]]\nsystem = "kraft"\n', "s.toml:3: [[on]] needs a system, and why"),
        ('[[on]]\nsystem = "kraft"\nwhy = "x"\nstep = 1\n', "s.toml:6: unknown key 'step' in [on]"),
        ('[[steps]]\nwait = { acks = 1 }\non = "kafka > 4"\n', "s.toml:5: on: 'kafka > 4' is no system"),
        ('[[on]]\nsystem = "kraft >= 4"\nwhy = "x"\n', "s.toml:4: system: 'kraft >= 4' is no system"),
    ],
)
def test_a_mistake_in_what_differs_is_told_like_any_other(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        of(Traits(), text=MINIMAL + text)


def test_an_unknown_scenario_names_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="did you mean 'unclean-election'"):
        scenario_file.find("unclean-electoin")


def test_what_is_said_of_somebodys_cluster_is_written_out_and_read_again() -> None:
    scenario = parse(MINIMAL + '[cluster]\nbootstrap = "a:1"\n[attached]\nkill = "k {node}"\nnodes = { 1 = "a:1" }\n')
    again = scenario_file.parse(written_out(scenario), name="s", place="written")
    assert again.cluster == scenario.cluster
    assert again.cluster.attached.commands == {"kill": "k {node}"}


def test_a_table_about_somebodys_cluster_serves_every_scenario(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        '[attached]\nkill = "ssh {host} \\"kill -9 $(pidof java)\\""\nnodes = { 1 = "a:1" }\ntimeout = "5 s"\n'
    )
    attached = parse(MINIMAL, *attached_overrides(file)).cluster.attached
    assert attached.kill == 'ssh {host} "kill -9 $(pidof java)"'
    assert attached.nodes == {"1": "a:1"}
    assert attached.command_timeout_s == 5

    file.write_text("[cluster]\n")
    with pytest.raises(UsageError, match=r"write one table, \[attached\]"):
        attached_overrides(file)


def test_a_scenario_of_the_seeds_is_found_by_its_folder_and_named_without_a_slash() -> None:
    assert scenario_file.load("seeds/isr-lag").name == "seeds-isr-lag", "the name goes into a run folder's"
    with pytest.raises(UsageError, match="did you mean 'seeds/isr-lag'"):
        scenario_file.find("seeds/isr-lgg")
    assert not set(scenario_file.seed_names()) & set(scenario_file.shipped_names())


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("expect = { fetch = 'x' }", "fetch is a whole number"),
        ("expect = { fetch = 1, values = 3 }", "values names values as a text"),
        ("expect = { epoch_end = 3 }", "epoch_end is a table"),
        ("expect = { produce = '', to = 1 }", "produce names at least one value"),
        ("wait = { leaders_each = {} }", "leaders_each is a table"),
        ("expect = { create_topic = 'x', replicas = 3 }", "unknown key 'replicas' beside 'create_topic'"),
        ("act = { produce = 'x', to = 1 }", "unknown key 'to' beside 'produce'"),
    ],
)
def test_a_question_to_one_broker_is_held_as_strictly(step: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parse(MINIMAL + "[[steps]]\n" + step + "\n")


def test_values_of_a_probe_count_up_and_never_repeat() -> None:
    assert scenario_steps.values_of("r0..r2, x") == ["r0", "r1", "r2", "x"]
    for wrong in ("r2..r0", "a1..b3", "x, x"):
        with pytest.raises(ValueError, match=r"range|twice"):
            scenario_steps.values_of(wrong)


def workload_keys() -> set[str]:
    """Those of all our workloads."""
    known = {"name"}
    for name in workloads.names():
        settings = workloads.settings_of(name)
        assert settings is not None
        known |= keys_of(settings).keys()
    return known


def test_the_page_on_scenarios_has_exactly_the_keys_that_the_loader_knows() -> None:
    described: dict[str, set[str]] = {}
    section = ""
    for line in DOCS.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"##+ `([^`]+)`", line):
            section = heading.group(1)
        elif row := re.match(r"\| `([^`]+)` \|", line):
            described.setdefault(section, set()).add(row.group(1))
    tables = {
        "[run]": scenario_keys.RUN,
        "[cluster]": scenario_keys.CLUSTER,
        "[attached]": scenario_keys.ATTACHED,
        "[attached.security]": scenario_keys.SECURITY,
        "[[topics]]": scenario_keys.TOPIC,
        "[workload]": workload_keys(),
        "[[faults]]": scenario_keys.FAULT,
        "kind": catalogue.by_name(),
        "act": ACTS,
        "wait": scenario_steps.CONDITIONS,
        "expect": {key: None for key in scenario_steps.EXPECTATIONS if key not in scenario_steps.CONDITIONS},
        "[expect]": scenario_keys.EXPECT,
        "findings": scenario_keys.PATTERN,
        "[coverage]": COVERAGE_CONDITIONS,
        "[[on]]": {**scenario_keys.ON, **dict.fromkeys(scenario_keys.OVERLAID)},
    }
    reported = described.pop("when")
    assert len({triggers.parse(form)[0].kind for form in reported}) == len(reported) > 8, (
        "every form is one that is read"
    )
    assert described == {name: set(keys) for name, keys in tables.items()}


@pytest.mark.parametrize("one_line", [True, False])
def test_a_file_of_very_many_tables_is_read_once_and_not_once_for_each(one_line: bool) -> None:
    names = [f"t{number}" for number in range(20_000)]
    tables = [f'{{ name = "{name}" }}' for name in names]
    text = (
        f"topics = [{', '.join(tables)}]" if one_line else "".join(f'[[topics]]\nname = "{name}"\n' for name in names)
    )

    read = parse(text)

    assert [topic.name for topic in read.topics] == names


@pytest.mark.slow
def test_a_key_of_a_million_letters_is_one_line() -> None:
    with pytest.raises(UsageError, match=r"s\.toml:2: unknown key 'kkk") as reported:
        parse(f"[cluster]\n{'k' * 1_000_000} = 1\n")
    assert len(str(reported.value)) < 1000


def test_the_page_on_scenarios_tells_of_every_fault_what_the_fault_declares() -> None:
    rows = {
        row.group(1): [cell.strip() for cell in row.group(2).split("|")]
        for line in DOCS.read_text(encoding="utf-8").splitlines()
        if (row := re.fullmatch(r"\| `([a-z-]+)` \|((?:[^|]+\|){3}[^|]*)\|", line))
    }
    for name, fault in catalogue.by_name().items():
        _, options, ended_by, also = rows[name]
        assert {each for each in options.split(", ") if each != "none"} == set(catalogue.options_of(fault)), name
        assert ended_by == ("itself" if fault.lasts_s is not Fault.lasts_s else fault.undone_by), name
        assert {each.replace("_", "-") for each in also.split(", ") if each} == set(fault.aliases), name
