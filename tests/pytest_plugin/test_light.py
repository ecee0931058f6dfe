"""The plugin is a package of its own: it may import pytest, itself and the standard library, and nothing else."""

import ast
import sys
from pathlib import Path

PLUGIN = Path(__file__).parents[2] / "harness" / "pytest_plugin"
MAY = {*sys.stdlib_module_names, "pytest", "kafka_chaos_pytest"}


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def test_no_module_imports_the_harness_or_a_library_that_a_user_may_not_have() -> None:
    modules = sorted((PLUGIN / "kafka_chaos_pytest").rglob("*.py"))
    assert len(modules) > 10
    assert {path.name: others for path in modules if (others := imported(path) - MAY)} == {}


def test_its_package_asks_for_pytest_alone() -> None:
    assert 'dependencies = ["pytest>=8"]' in (PLUGIN / "pyproject.toml").read_text(encoding="utf-8")
