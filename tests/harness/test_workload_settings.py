"""A workload owns its keys in [workload]: they are read by their types, and those of another workload are refused."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness import extensions
from harness.controller.workers.acting import settings_of
from harness.controller.workers.processes import worker_specs
from harness.errors import HarnessError, UsageError
from harness.history.run_folder import RunFolder
from harness.host.clock import SystemClock
from harness.ports.load import LoadFacts, WorkloadSpec
from harness.scenario import file as scenario_file
from harness.scenario.file import scenario_of
from harness.scenario.model import Scenario
from harness.scenario.written import written_out
from tests.harness.controller.conftest import MemoryCluster
from tests.harness.installing import install
from workloads.consumer_groups import ConsumerGroupsSettings
from workloads.produce_and_poll import ProduceAndPollSettings
from workloads.transactions import TransactionsSettings

TOPICS = '[[topics]]\nname = "t"\n[[topics]]\nname = "results"\n'
WITH_GROUP = 'name = "consumer_groups"\ngroup = "g"\nstay = "500 ms"\n'
WITH_TRANSACTIONS = 'name = "transactions"\ngroup = "g"\noutput = "results"\nprocessors = 2\nabort_share = 0.5\n'
SETTINGS = """
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar
from harness.extending.workloads import Count, LoadFacts, Seconds, TopicPartition, Workload, WorkloadSettings

@dataclass(frozen=True, kw_only=True)
class Pings(WorkloadSettings):
    name: ClassVar[str] = "pings"
    pingers: Count = 3
    every_s: Seconds | None = None
    where: tuple[str, ...] = ()
    {more}

    @property
    def facts(self) -> LoadFacts:
        return LoadFacts(clients={{"pinger": self.pingers}})

    def make_worker(self, *, role: str, place: int, places: int, partitions: Sequence[TopicPartition]) -> Workload:
        raise NotImplementedError
"""


def parse(workload: str, *overrides: str, more: str = "") -> Scenario:
    text = f"{TOPICS}[workload]\n{workload}{more}"
    return scenario_file.parse(text, name="s", place="s.toml", overrides=overrides)


@pytest.fixture
def pings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The module of an installed workload."""
    module = "pings_" + re.sub(r"\W", "_", tmp_path.name)
    monkeypatch.syspath_prepend(tmp_path)
    points = {extensions.WORKLOADS: {"pings": f"{module}:Pings"}}
    install(tmp_path, "ping-package", entry_points=points, modules={module: SETTINGS.format(more="")})
    extensions.forget()
    yield module
    sys.modules.pop(module, None)
    extensions.forget()


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", ProduceAndPollSettings),
        ('name = "none"\n', WorkloadSpec),
        (WITH_GROUP, ConsumerGroupsSettings),
        (WITH_TRANSACTIONS, TransactionsSettings),
    ],
)
def test_a_workload_is_read_into_its_own_class_and_written_back(text: str, settings: type[WorkloadSpec]) -> None:
    scenario = parse(text + 'acks = "1"\n')
    assert type(scenario.workload) is settings
    assert scenario.workload.acks == "1"
    again = scenario_file.parse(written_out(scenario), name="s", place="written")
    assert again.workload == scenario.workload


def test_every_key_of_every_workload_of_before_is_read_as_before() -> None:
    common = 'topics = ["t"]\nclient = "aiokafka"\nacks = 1\nidempotence = false\nlinger_ms = 5\nretries = 0\n'
    common += 'request_timeout_ms = 7\ndelivery_timeout_ms = 8\nduration = "3 min"\nwarm_up = 2\nstuck_after = "4 s"\n'
    producers = "producers = 4\nconsumers = 5\nrate_per_second = 6\nbatch = 7\nvalue_bytes = 8\nkeys = 9\n"
    producers += "replace_client = false\n"
    read = parse(common + producers).workload
    assert read == ProduceAndPollSettings(
        topics=("t",),
        client="aiokafka",
        acks="1",
        idempotence=False,
        linger_ms=5,
        retries=0,
        request_timeout_ms=7,
        delivery_timeout_ms=8,
        duration_s=180.0,
        warm_up_s=2.0,
        stuck_after_s=4.0,
        producers=4,
        consumers=5,
        rate_per_second=6.0,
        batch=7,
        value_bytes=8,
        keys=9,
        replace_client=False,
    )
    group = f"{WITH_GROUP}session_timeout_ms = 3\ncrash_share = 1\nseek_share = 0.25\n"
    assert parse(group + producers).workload == ConsumerGroupsSettings(
        group="g",
        stay_s=0.5,
        session_timeout_ms=3,
        crash_share=1.0,
        seek_share=0.25,
        producers=4,
        consumers=5,
        rate_per_second=6.0,
        batch=7,
        value_bytes=8,
        keys=9,
        replace_client=False,
    )
    transactions = f"{WITH_TRANSACTIONS}transaction_timeout_ms = 4\nsession_timeout_ms = 3\nstay = 2\n"
    assert parse(transactions).workload == TransactionsSettings(
        group="g",
        output="results",
        processors=2,
        abort_share=0.5,
        transaction_timeout_ms=4,
        session_timeout_ms=3,
        stay_s=2.0,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('seek_share = 0.1\nname = "transactions"\n', "s.toml:6: unknown key 'seek_share' in [workload]"),
        ('name = "none"\nbatch = 3\n', "s.toml:7: unknown key 'batch' in [workload]"),
        ('name = "none"\nbatch = 3\n', "; workload 'none' has: acks, client, delivery_timeout_ms, duration, "),
        ('name = "transctions"\n', "s.toml:6: unknown workload 'transctions'; did you mean 'transactions'?"),
        ("name = 3\n", "s.toml:6: unknown workload 3; a text is needed"),
        ('name = "consumer_groups"\n', "s.toml:5: workload 'consumer_groups' needs a group"),
    ],
)
def test_a_mistake_names_its_line_and_the_keys_of_that_workload(text: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_overrides_and_variants_speak_of_the_workload_that_the_scenario_has() -> None:
    variant = '[[on]]\nsystem = "reference"\nwhy = "it is faster"\nworkload = { name = "none", duration = "9 s" }\n'
    read = parse("", more=variant).workload
    assert (type(read), read.duration_s) == (WorkloadSpec, 9.0)
    changed = parse(WITH_GROUP, "workload.seek_share=0.5").workload
    assert isinstance(changed, ConsumerGroupsSettings)
    assert changed.seek_share == 0.5
    with pytest.raises(UsageError, match="unknown key 'seek_share'"):
        parse("", "workload.seek_share=0.5")


def test_a_workload_of_a_package_is_read_written_and_handed_to_its_workers_like_our_own(pings: str) -> None:
    scenario = parse('name = "pings"\npingers = 2\nevery = "1500 ms"\nwhere = ["a", "b"]\n')
    again = scenario_file.parse(written_out(scenario), name="s", place="written")
    assert again.workload == scenario.workload
    assert scenario.workload.workers == 2

    specs = worker_specs(replace(scenario, seed=1), MemoryCluster(), history=Path("history"))

    assert [spec.name for spec in specs] == ["pinger-1", "pinger-2"]
    assert {settings_of(spec) for spec in specs} == {scenario.workload}
    with pytest.raises(UsageError, match=r"s\.toml:7: unknown key 'pinger'.*; workload 'pings' has: .*every, .*where"):
        parse('name = "pings"\npinger = 2\n')


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("odd: dict[str, int] | None = None", "field 'odd' is of no type that a scenario can give"),
        ("odd: Count", "missing 1 required keyword-only argument: 'odd'"),
        ("odd: 'Missing' = 3", "name 'Missing' is not defined"),
    ],
)
def test_settings_that_no_scenario_can_give_are_the_packages_fault(
    pings: str, tmp_path: Path, more: str, expected: str
) -> None:
    (tmp_path / f"{pings}.py").write_text(SETTINGS.format(more=more))
    with pytest.raises(HarnessError) as caught:
        parse('name = "pings"\n')
    assert str(caught.value).startswith("package ping-package 1.0: workload 'pings': Pings: ")
    assert expected in str(caught.value)


def test_settings_that_make_no_workers_are_the_packages_fault(pings: str, tmp_path: Path) -> None:
    spec = "from harness.ports.load import WorkloadSpec\n"
    text = f"{spec}{SETTINGS.format(more='')}".replace("(WorkloadSettings)", "(WorkloadSpec)")
    (tmp_path / f"{pings}.py").write_text(text.replace("def make_worker", "def other"))
    with pytest.raises(HarnessError, match=r"derive Pings from harness\.extending\.workloads\.WorkloadSettings"):
        parse('name = "pings"\n')


def test_settings_without_the_decorator_are_the_packages_fault(pings: str, tmp_path: Path) -> None:
    (tmp_path / f"{pings}.py").write_text(SETTINGS.format(more="").replace("@dataclass(frozen=True, kw_only=True)", ""))
    with pytest.raises(HarnessError, match="decorate Pings with @dataclass"):
        parse('name = "pings"\n')


@pytest.mark.parametrize("outputs", [[], ["t"]])
def test_a_run_of_a_workload_that_is_not_installed_is_read_by_what_it_wrote_down(
    tmp_path: Path, outputs: list[str]
) -> None:
    folder = RunFolder.create(tmp_path, scenario="s", clock=SystemClock(), seed=1, stamp="now")
    folder.write_scenario(f'{TOPICS}[workload]\nname = "strange"\nacks = "1"\nodd = 3\n')
    with pytest.raises(UsageError, match="unknown workload 'strange'"):
        scenario_of(folder)
    folder.update(workload={"clients": {"pinger": 2}, "group": "g", "outputs": outputs})

    read = scenario_of(folder).workload

    assert (read.name, read.acks, read.workers) == ("strange", "1", 2)
    assert read.facts == LoadFacts(clients={"pinger": 2}, group="g", outputs=tuple(outputs))
    with pytest.raises(UsageError, match="unknown workload 'strange'"):
        scenario_file.load(str(folder.path))


def test_what_a_run_wrote_down_of_its_workload_is_held_to_its_shape(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, scenario="s", clock=SystemClock(), seed=1, stamp="now")
    folder.write_scenario(f'{TOPICS}[workload]\nname = "strange"\n')
    for unfit in ({"clients": 3}, {"odd": 1}, {"outputs": "t"}):
        text = json.dumps(json.loads((folder.path / "run.json").read_text()) | {"workload": unfit})
        (folder.path / "run.json").write_text(text)
        with pytest.raises(HarnessError, match=r"run\.json: .*workload"):
            scenario_of(folder)
