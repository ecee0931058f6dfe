"""A check of an installed package speaks under its own name only, and an error in it names the package."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import extensions
from harness.checks import answers, catalogue
from harness.checks.contract.rulings import OtherCause
from harness.checks.family import Family
from harness.checks.findings import Finding
from harness.checks.wording.causes import cause_words
from harness.errors import HarnessError
from tests.harness.installing import install

HEAD = """
from harness.extending.checks import Anomaly, Family, Finding

def page(name="odd", markdown="# Odd", names=None):
    names = names or (name,)
    return Anomaly(page=name, names=names, title="Odd", family="run", sentence="It is odd.", markdown=markdown)

def finding(context, **changes):
    told = {"run": 0, "check": "odd", "classification": "observation", "kind": "odd", "count": 1, "sentence": "Odd."}
    return [Finding(**(told | changes))]
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Family]]:
    """Installs the check `odd`, as its source makes it, and gives it as the catalogue has it."""
    monkeypatch.syspath_prepend(tmp_path)
    module = f"odd_{tmp_path.name.replace('-', '_')}"

    def put(source: str, name: str = "odd") -> Family:
        points = {extensions.CHECKS: {name: f"{module}:ODD"}}
        install(tmp_path, "odd-package", entry_points=points, modules={module: f"{HEAD}\nODD = {source}\n"})
        return forgotten()

    def forgotten() -> Family:
        extensions.forget()
        catalogue.families.cache_clear()
        return catalogue.families()[-1]

    yield put
    sys.modules.pop(module, None)
    extensions.forget()
    catalogue.families.cache_clear()


class Context:
    """As much of a RunContext as a check that finds without asking takes."""

    def __init__(self) -> None:
        self.found: dict[str, list[Finding]] = {}


def find(family: Family, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    monkeypatch.setattr(answers, "families", lambda: (family,))
    monkeypatch.setattr(answers, "_with_fault_kinds", lambda context, finding: finding)
    context: Any = Context()
    return answers.find_all(context)


def test_a_check_of_others_sets_no_flag_in_the_query_of_all(installed: Callable[..., Family]) -> None:
    flag = "__import__('harness.checks.spark.fused_query').checks.spark.fused_query.Flag(name='mine', condition='true')"
    with pytest.raises(HarnessError, match=r"odd-package.*'odd': flags are for checks of ours; ask by a query"):
        installed(f"Family(name='odd', find=finding, anomalies=(page(),), flags=({flag},))")


def test_a_check_comes_after_ours_and_what_it_finds_is_stored_with_its_page(
    installed: Callable[..., Family], monkeypatch: pytest.MonkeyPatch
) -> None:
    family = installed("Family(name='odd', find=finding, anomalies=(page(),))")
    assert catalogue.families() == (*catalogue.FAMILIES, family)
    assert [each.check for each in find(family, monkeypatch)] == ["odd"]
    assert answers.added_anomalies() == [
        {
            "page": "odd",
            "names": ("odd",),
            "title": "Odd",
            "family": "run",
            "sentence": "It is odd.",
            "markdown": "# Odd",
            "package": "odd-package 1.0",
        }
    ]


def test_what_goes_wrong_in_it_is_one_line_that_names_the_package_and_the_place(
    installed: Callable[..., Family], monkeypatch: pytest.MonkeyPatch
) -> None:
    family = installed("Family(name='odd', find=lambda context: 1 / 0, anomalies=(page(),))")
    with pytest.raises(HarnessError) as caught:
        find(family, monkeypatch)
    message = str(caught.value)
    assert message.startswith("package odd-package 1.0, check 'odd': ZeroDivisionError: division by zero (odd_")
    assert "`kafka-chaos check` judges it again" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ("lambda context: finding(context, check='lost-write')", "has check 'lost-write'; write check='odd'"),
        ("lambda context: finding(context, evidence={'rules': [3]})", "the evidence of a finding is unfit"),
        ("lambda context: finding(context, evidence={'seen': context})", "the evidence of a finding is no JSON"),
        ("lambda context: [3]", "it must return Findings, not int"),
    ],
)
def test_it_speaks_under_its_own_name_only(
    installed: Callable[..., Family], monkeypatch: pytest.MonkeyPatch, found: str, expected: str
) -> None:
    family = installed(f"Family(name='odd', find={found}, anomalies=(page(),))")
    with pytest.raises(HarnessError, match=expected):
        find(family, monkeypatch)


def test_its_query_answers_with_rows_of_runs(installed: Callable[..., Family]) -> None:
    family = installed("Family(name='odd', find=finding, query=lambda runs: [{'count': 1}], anomalies=(page(),))")
    runs: Any = None
    assert family.query is not None
    with pytest.raises(HarnessError, match="a list of rows, each a dict with its 'run'"):
        answers.rows_of(family, family.query, runs)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Family(name='odd', find=finding)", "none of its anomalies is named 'odd'"),
        ("Family(name='odd', find=finding, anomalies=(page(), page('dirty-read')))", "not 'dirty-read'"),
        ("Family(name='odd', find=finding, anomalies=(page(markdown=' '),))", "the anomaly 'Odd' has no text"),
        ("finding", "leads to an object of type function, and must lead to one of type Family"),
    ],
)
def test_a_check_without_pages_of_its_own_is_refused(
    installed: Callable[..., Family], source: str, expected: str
) -> None:
    with pytest.raises(HarnessError, match=expected) as caught:
        installed(source)
    assert str(caught.value).startswith("package odd-package 1.0, ")


@pytest.mark.parametrize("name", ["lost-write", "tail-loss", "availability"])
def test_no_package_takes_the_name_of_a_check_or_an_anomaly_of_ours(
    installed: Callable[..., Family], name: str
) -> None:
    with pytest.raises(HarnessError, match=f"the name '{name}' is kafka-chaos's own"):
        installed(f"Family(name='{name}', find=finding, anomalies=(page('{name}'),))", name)


def test_a_cause_of_its_own_has_a_code_for_fingerprints_and_words_for_people() -> None:
    def of(code: str, words: str) -> Finding:
        cause = OtherCause(code=code, words=words)
        return Finding(
            run=0, check="odd", classification="observation", kind="odd", count=1, sentence="Odd.", cause=cause
        )

    assert cause_words(of("late", "the leader was late").cause) == "the leader was late"
    assert of("late", "one").fingerprint == of("late", "another").fingerprint != of("early", "one").fingerprint
    with pytest.raises(ValueError, match="'no-leader' is kafka-chaos's own"):
        OtherCause(code="no-leader", words="")
