"""One catalogue of anomalies: every name that a check gives has a page, every page a check, and the pages are whole."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.anomalies import ANOMALIES, BY_NAME, anomaly_of
from harness.checks.cycles import elle, native
from harness.checks.cycles.model import Kind
from harness.checks.jepsen.own_answers import EMPTY_GRAPH
from harness.checks.jepsen.own_rules import INCONCLUSIVE, READ_WRITE_CYCLES, REPORTED

ROOT = Path(__file__).parents[2]
CHECKS = ROOT / "harness" / "checks"
PAGES = ROOT / "docs" / "anomalies"
HEADINGS = [
    "Rule",
    "The smallest history",
    "When a configuration permits it",
    "In Kafka's history",
    "What the report shows, and what to do",
]
COMPOSED = "-realtime"  # the checks put it behind a cycle's name
ANSWERS = {"log_errors": "jepsen/answers.py", "own_errors": "jepsen/own_answers.py"}


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(CHECKS.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def constants(tree: ast.AST) -> dict[str, list[str]]:
    """Name -> every text that it is ever set to, also as one of several names, and also either of two."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            pairs: list[tuple[ast.expr, ast.expr]] = []
            for target in node.targets:
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs += zip(target.elts, node.value.elts, strict=True)
                else:
                    pairs.append((target, node.value))
            for target, value in pairs:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).extend(texts(value))
    return found


def texts(value: ast.expr) -> list[str]:
    if isinstance(value, ast.IfExp):
        return [*texts(value.body), *texts(value.orelse)]
    return [value.value] if isinstance(value, ast.Constant) and isinstance(value.value, str) else []


def given_names() -> dict[str, str]:
    """Every check name that a finding is made with, and the file: literals, and names that are set to literals."""
    found: dict[str, str] = {}
    for path, tree in trees():
        known = constants(tree)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id not in ("Finding", "finding_of_rows"):
                continue
            for keyword in node.keywords:
                if keyword.arg != "check":
                    continue
                reported = texts(keyword.value)
                if isinstance(keyword.value, ast.Name):
                    reported = known.get(keyword.value.id, [])
                found |= dict.fromkeys(reported, path.name)
    return found


def all_texts() -> set[str]:
    return {
        node.value
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_check_that_can_give_a_finding_has_a_page() -> None:
    names = given_names()
    assert len(names) > 15
    without = {name: file for name, file in names.items() if anomaly_of(name) is None}
    assert without == {}, "the index of docs/anomalies has no line for these checks"


def answered(function: str) -> set[str]:
    """The names under which a function of the checks puts the errors of an imported history."""
    tree = ast.parse((CHECKS / ANSWERS[function]).read_text(encoding="utf-8"))
    (body,) = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == function)
    (table,) = (
        node.value
        for node in body.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict)
    )
    return {text for key in table.keys if key is not None for text in texts(key)}


def imported_cycles() -> set[str]:
    """What Jepsen's search can say: each kind of cycle, that there is one in each model, and that nothing depends."""
    kinds = {sought.kind for sought in elle._SOUGHT}
    return kinds | {f"{model}-cycle-exists" for model, _ in elle._MODELS} | {EMPTY_GRAPH}


def test_every_name_that_an_imported_history_can_get_has_a_page() -> None:
    own, jepsens, cycles = answered("own_errors"), answered("log_errors"), imported_cycles()
    assert own | READ_WRITE_CYCLES >= REPORTED, "the names that decide are names that are given"
    assert {"lost-write", "G1a", "poll-skip"} <= jepsens
    assert {"G1c-realtime", "strong-PL-2-cycle-exists", "empty-transaction-graph"} <= cycles
    without = (REPORTED | INCONCLUSIVE | own | jepsens | cycles) - BY_NAME.keys()
    assert without == set(), "the index of docs/anomalies has no line for these names of imported histories"


def test_every_kind_of_cycle_in_a_run_of_ours_has_a_page_that_names_it() -> None:
    bases = {kind for name, kind in vars(Kind).items() if name.isupper()} - {Kind.REALTIME_SUFFIX}
    kinds = [base + suffix for base in bases for suffix in ("", Kind.REALTIME_SUFFIX)]
    named = {f"cycle/{native._KINDS.get(kind, kind)}" for kind in kinds}
    assert {"cycle/read-before-send", "cycle/order-against-time", "cycle/circular-reading", "cycle/G0"} <= named
    assert named == {name for name in BY_NAME if name.startswith("cycle/")}


def given(name: str, said: set[str]) -> bool:
    return name in said or (name.endswith(COMPOSED) and {name.removesuffix(COMPOSED), COMPOSED} <= said)


def test_every_page_has_a_check() -> None:
    said = all_texts()
    for anomaly in ANOMALIES:
        known = [name for name in anomaly.names if all(given(part, said) for part in name.split("/"))]
        assert known == list(anomaly.names), f"{anomaly.page}: no check gives {set(anomaly.names) - set(known)}"


def test_the_catalogue_and_the_folder_name_the_same_pages() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} - {"README"} == {anomaly.page for anomaly in ANOMALIES}
    assert len(BY_NAME) == sum(len(anomaly.names) for anomaly in ANOMALIES)


@pytest.mark.parametrize("page", [anomaly.page for anomaly in ANOMALIES])
def test_a_page_is_whole(page: str) -> None:
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    anomaly = next(each for each in ANOMALIES if each.page == page)
    assert text.splitlines()[0] == f"# {anomaly.title}"
    assert re.findall(r"^## (.*)$", text, re.M) == HEADINGS
    assert text.count("```") == 2, "one drawn history"
    assert "nearest" in text.partition("## The smallest history")[2].partition("## When")[0]
    for name in anomaly.names:
        assert f"`{name.rpartition('/')[2]}`" in text, f"{name} is not named"
    assert [line for line in text.splitlines() if len(line) > 116] == []


def test_a_kind_may_have_a_page_of_its_own() -> None:
    kinds = [name for name in BY_NAME if "/" in name]
    for name in kinds:
        check, _, kind = name.partition("/")
        assert anomaly_of(check, kind) is BY_NAME[name]
    assert anomaly_of("lost-write", "any kind") is BY_NAME["lost-write"]
    assert anomaly_of("unheard-of") is None
