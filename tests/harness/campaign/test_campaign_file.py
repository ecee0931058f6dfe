"""A campaign's file is read strictly, multiplied out, and looked at before anything is started."""

import re
from pathlib import Path

import pytest

from harness.campaign.file import read_campaign
from harness.campaign.plan import Plan
from harness.errors import UsageError

DOCS = Path(__file__).parents[3] / "docs" / "campaigns.md"
SCENARIO = '[[topics]]\nname = "orders"\n[workload]\nduration = "3 s"\n'


def plan(folder: Path, text: str) -> Plan:
    (folder / "mine.toml").write_text(SCENARIO)
    file = folder / "night.toml"
    file.write_text(text)
    return read_campaign(file, tell=lambda _: None)


def test_a_matrix_is_every_combination_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = plan(
        tmp_path,
        '[campaign]\nseed = 9\n[[matrix]]\nscenarios = ["mine.toml", "no-faults"]\nseeds = [3, 4]\n'
        'each = { "workload.acks" = ["1", "all"] }\nset = ["workload.idempotence=false"]\n',
    )
    assert [(run.number, run.scenario, run.seed) for run in found.runs] == [
        (1, "mine", 3),
        (2, "mine", 4),
        (3, "mine", 3),
        (4, "mine", 4),
        (5, "no-faults", 3),
        (6, "no-faults", 4),
        (7, "no-faults", 3),
        (8, "no-faults", 4),
    ]
    said = ["acks" in run.text for run in found.runs[:4]]
    assert said == [True, True, False, False], "acks=all is the default and is left out"
    assert len({run.key for run in found.runs}) == 8


def test_the_same_file_is_the_same_plan_and_another_setting_is_another(tmp_path: Path) -> None:
    text = '[[matrix]]\nscenarios = ["mine.toml"]\n[[random]]\nruns = 2\nprofile = "quick"\n'
    first = plan(tmp_path, text)
    assert plan(tmp_path, text).digest == first.digest
    assert plan(tmp_path, "[campaign]\njobs = 2\n" + text).digest == first.digest, "jobs do not make other runs"
    assert plan(tmp_path, text.replace("runs = 2", "runs = 3")).digest != first.digest


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[campaign]\njbos = 2\n[[matrix]]\nscenarios = ["mine.toml"]\n', "night.toml:2: unknown key 'jbos'"),
        ('[campain]\njobs = 2\n[[matrix]]\nscenarios = ["mine.toml"]\n', "night.toml:1: unknown section [campain]"),
        ('[campaign]\njobs = 0\n[[matrix]]\nscenarios = ["mine.toml"]\n', "night.toml:2: jobs: between 1 and"),
        ("[campaign]\njobs = 1\n", "a campaign needs at least one [[matrix]] or [[random]]"),
        ("[[matrix]]\nseeds = [1]\n", "night.toml:1: a matrix needs scenarios"),
        ('[[matrix]]\nscenarios = ["leader-crush"]\n', "unknown scenario 'leader-crush'"),
        ('[[matrix]]\nscenarios = ["mine.toml"]\nset = ["workload.acks=7"]\n', "acks is"),
        ('[[random]]\nruns = 1\nprofile = "quik"\n', "did you mean 'quick'?"),
        ('[[random]]\nprofile = "quick"\n', "drawn schedules need a number of runs"),
        ('[campaign]\ntime = "2 days"\n[[random]]\nruns = 1\n', "night.toml:2: time: a duration is written"),
        ("runs = [\n", "night.toml: "),
    ],
)
def test_what_is_wrong_is_one_line_with_its_place(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(UsageError) as refused:
        plan(tmp_path, text)
    assert error in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_file_in_the_documents_is_one_that_is_read(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(\[campaign\].*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    found = plan(tmp_path, text.replace('"reference", "kafka:4.3.1"', '"reference"'))
    assert (found.jobs, found.time_s, found.run_budget, found.run_limit_s) == (2, 7200.0, 200, 900.0)
    assert len(found.runs) == 2 * 1 * 3 * 2 + 40
