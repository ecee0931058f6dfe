"""What docs/seed_claims.md names exists, and every scenario of the seeds is named there with the claims it shows."""

import re
from pathlib import Path

import pytest

from harness.scenario import file as names
from harness.scenario import file as scenario_file

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "seed_claims.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (S\d\d) \| [^|]+ \| ([^|]+) \| [^|]+ \|$", PAGE, re.MULTILINE)
SHOWN = re.compile(r"`([\w./-]+)`(?: steps? ((?:\d+(?:-\d+)?)(?:, \d+(?:-\d+)?)*))?")
SCENARIOS = sorted({name for _, shown in ROWS for name, _ in SHOWN.findall(shown)})


def test_every_claim_has_one_row() -> None:
    assert [claim for claim, _ in ROWS] == [f"S{number:02}" for number in range(1, 98)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_and_every_step_that_the_page_names_exists(name: str) -> None:
    steps = scenario_file.load(name).steps
    for claim, shown in ROWS:
        for named, numbers in SHOWN.findall(shown):
            for number in map(int, re.findall(r"\d+", numbers) if named == name else ()):
                assert 1 <= number <= len(steps), f"{claim}: {name} has {len(steps)} steps"


def test_every_file_that_the_page_names_exists() -> None:
    named = re.findall(r"tests/[\w/.]+\.py", PAGE)
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("name", names.seed_names())
def test_a_scenario_of_the_seeds_says_which_claims_it_shows_and_the_page_says_the_same(name: str) -> None:
    story = scenario_file.load(name).story
    said = re.findall(r"S\d\d", story[story.rindex("Claim") :])
    assert said == [claim for claim, shown in ROWS if name in [named for named, _ in SHOWN.findall(shown)]]
