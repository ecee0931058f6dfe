"""Every test says what must hold: by itself, or through a helper of the tests that does. One that only calls something
cannot fail but by accident."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WAYS_TO_FAIL = {"raises", "fail", "warns"}  # pytest's own
WAYS_TO_FAIL |= {"until", "until_written"}  # waits for a condition, and not for ever
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_in(text: str) -> list[Function]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, Function)]


def called_by(function: Function) -> set[str]:
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return {each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in calls}


def says_by_itself(function: Function) -> bool:
    return any(isinstance(node, ast.Assert) for node in ast.walk(function)) or bool(called_by(function) & WAYS_TO_FAIL)


def helpers_that_say(functions: list[Function]) -> set[str]:
    """Names of which every function says something, by itself or through another such one."""
    by_name = defaultdict(list)
    for function in functions:
        by_name[function.name].append((says_by_itself(function), called_by(function)))
    found: set[str] = set()
    while True:
        more = {name for name, those in by_name.items() if all(says or called & found for says, called in those)}
        if more == found:
            return found
        found = more


def silent_tests(texts: dict[str, str]) -> list[str]:
    functions = {place: functions_in(text) for place, text in texts.items()}
    saying = helpers_that_say([each for those in functions.values() for each in those])
    return [
        f"{place}:{function.lineno} {function.name}"
        for place, those in functions.items()
        for function in those
        if function.name.startswith("test_") and not says_by_itself(function) and not called_by(function) & saying
    ]


@pytest.mark.slow
def test_every_test_says_what_must_hold() -> None:
    texts = {str(path.relative_to(HERE)): path.read_text(encoding="utf-8") for path in HERE.rglob("*.py")}
    assert len(texts) > 200
    assert silent_tests(texts) == []


@pytest.mark.parametrize(
    ("text", "is_silent"),
    [
        ("def test_a():\n    start()\n", True),
        ("def test_a():\n    assert start()\n", False),
        ("def test_a():\n    with pytest.raises(ValueError):\n        start()\n", False),
        ("def holds():\n    assert 1\ndef story():\n    holds()\nasync def test_a():\n    await story()\n", False),
        ("def start():\n    pass\ndef test_a():\n    start()\n", True),
        ("def a():\n    assert 1\ndef b():\n    def a(): ...\ndef test_a():\n    a()\n", True),
    ],
)
def test_a_test_that_says_nothing_is_found(text: str, is_silent: bool) -> None:
    assert bool(silent_tests({"test_x.py": text})) == is_silent
