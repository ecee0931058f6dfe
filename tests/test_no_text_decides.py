"""Checks and pages decide on typed facts, never on words: no module of theirs takes a text apart or looks into one.

What may is listed, each with its reason. Texts for people may be cut to a length and shown; what they say is stored
beside them as a fact.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

_HERE = Path(__file__).parents[1]
_LOOKS_INTO = frozenset(
    {
        "startswith",
        "endswith",
        "removeprefix",
        "removesuffix",
        "partition",
        "rpartition",
        "split",
        "rsplit",
        "find",
        "rfind",
        "rlike",
        "regexp_extract",
        "regexp_replace",
        "match_substring",
        "match_substring_regex",
    }
)
_OF_OTHERS_TOO = frozenset({"partition", "rpartition", "find", "rfind"})  # of a topic, of a family of checks
# Columns and fields that are for people.
_TEXTS = frozenset({"sentence", "label", "proof", "healed_proof", "text", "seen", "trigger", "note", "planned"})
_ALLOWED: Mapping[tuple[str, str], str] = {
    ("harness/checks/spark/session.py", "startswith"): "a Spark master's URL",
    ("harness/checks/spark/class_archive.py", "partition"): "names of files that are all the archive's own",
    ("harness/checks/spark/class_path.py", "startswith"): "names of PySpark's jars, by family",
    ("harness/checks/early_session.py", "startswith"): "a Spark master's URL",
    ("harness/checks/spark/priority.py", "startswith"): "what the kernel tells of a process's capabilities",
    ("harness/checks/spark/priority.py", "split"): "what the kernel tells of a process's capabilities",
    ("harness/checks/spark/standalone.py", "import re"): "Spark's own configuration file",
    ("harness/checks/spark/standalone.py", "split"): "Spark's own configuration file",
    ("harness/checks/spark/standalone.py", "startswith"): "Spark's own configuration file, a master's URL",
    (
        "harness/checks/families/transactions/exactly_once.py",
        "regexp_extract",
    ): "a record's value says which input it is the output of",
    (
        "harness/checks/spark/tables.py",
        "match_substring",
    ): "the name of a client's exception, of which libraries have two",
    ("reports/markdown.py", "import re"): "pages of documentation are Markdown",
    ("reports/markdown.py", "startswith"): "pages of documentation are Markdown",
    ("reports/markdown.py", "split"): "pages of documentation are Markdown",
    ("reports/explanations.py", "startswith"): "pages of documentation are Markdown",
    ("reports/explanations.py", "partition"): "pages of documentation are Markdown",
    ("reports/run_data.py", "import re"): "ranges and names of nodes within words, for display",
    ("reports/run/replay/commands.py", "startswith"): "a value that begins with a dash would be an option of a command",
    ("reports/run/replay/commands.py", "partition"): "KEY=VALUE, as an override is given",
    ("reports/run/replay/issue.py", "import re"): "what Markdown would take for markup is escaped",
    ("reports/run/replay/issue.py", "startswith"): "what Markdown would take for markup is escaped",
    ("reports/run/replay/issue.py", "endswith"): "what Markdown would take for markup is escaped",
    ("reports/run/replay/issue.py", "split"): "several lines become one",
    ("reports/render.py", "import re"): "where long names may break on a page",
    ("reports/render.py", "split"): "where long names may break on a page",
    ("reports/run/facts.py", "endswith"): "names of fields end in their unit",
    ("reports/run/facts.py", "removesuffix"): "names of fields end in their unit",
    ("reports/run/facts.py", "rpartition"): "names of fields end in their unit",
    ("reports/run/findings.py", "rpartition"): "a cause is cut between words where it is too long for its column",
    ("reports/comparison/sections.py", "rpartition"): "a note is cut between words where it is too long",
    ("reports/run/axis_notes.py", "split"): "style classes of a span, as HTML joins them",
    ("reports/run/timeline.py", "comparison"): "two intervals one after the other that look the same are drawn as one",
}


def looked_into(source: str) -> Iterator[tuple[str, int]]:
    """(what is done to a text, line)"""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            if "re" in names:
                yield "import re", node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LOOKS_INTO:
            if node.func.attr not in _OF_OTHERS_TOO or _is_of_text(node):
                yield node.func.attr, node.lineno
        elif isinstance(node, ast.Compare) and _compares_a_text(node):
            yield "comparison", node.lineno


def _compares_a_text(node: ast.Compare) -> bool:
    """With anything but None."""
    with_none = any(isinstance(each, ast.Constant) and each.value is None for each in node.comparators)
    return not with_none and any(_is_text(each) for each in (node.left, *node.comparators))


def _is_of_text(call: ast.Call) -> bool:
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)


def _is_text(node: ast.expr) -> bool:
    """row["label"], fault.label, str(row["label"]), row["label"] or "" """
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return _is_text_name(node.slice.value)
    if isinstance(node, ast.Call):
        return any(_is_text(each) for each in (*node.args, node.func))
    if isinstance(node, ast.BoolOp):
        return any(_is_text(each) for each in node.values)
    return isinstance(node, ast.Attribute) and _is_text_name(node.attr)


def _is_text_name(name: object) -> bool:
    return isinstance(name, str) and (name in _TEXTS or name.endswith("_text"))


def _modules() -> list[str]:
    found = [*(_HERE / "harness" / "checks").rglob("*.py"), *(_HERE / "reports").rglob("*.py")]
    return sorted(str(path.relative_to(_HERE)) for path in found)


def _found(module: str) -> dict[str, list[int]]:
    lines: dict[str, list[int]] = {}
    for what, line in looked_into((_HERE / module).read_text(encoding="utf-8")):
        lines.setdefault(what, []).append(line)
    return lines


@pytest.mark.parametrize("module", _modules())
def test_no_module_decides_on_a_text(module: str) -> None:
    assert {what: lines for what, lines in _found(module).items() if (module, what) not in _ALLOWED} == {}


def test_every_exception_is_still_one() -> None:
    assert [(module, what) for module, what in _ALLOWED if what not in _found(module)] == []


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import re", "import re"),
        ("from re import compile", "import re"),
        ("why.startswith('compaction')", "startswith"),
        ("told.partition(': ')", "partition"),
        ("context.partition(tp)", ""),
        ("'uncleanly' in link['sentence']", "comparison"),
        ("any(node in str(fault['label']) for node in nodes)", "comparison"),
        ("finding.sentence == other.sentence", "comparison"),
        ("'x' in (row['held_text'] or '')", "comparison"),
        ("row['label'] is None", ""),
        ("row['kind'] == 'cut'", ""),
    ],
)
def test_a_look_into_a_text_is_seen(source: str, what: str) -> None:
    assert [each for each, _ in looked_into(source)] == ([what] if what else [])
