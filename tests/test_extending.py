"""docs/extending.md shows the example package's own text, and that package relies on `harness.extending` alone."""

import ast
import importlib
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest

from harness import extending

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "extending.md"
EXAMPLE = ROOT / "docs" / "examples" / "extension"
MODULES = [module.name for module in pkgutil.iter_modules(extending.__path__)]
SOURCES = sorted((EXAMPLE / "kafka_chaos_example").glob("*.py"))


def excerpts() -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(r"^```(?:python|toml)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_every_excerpt_is_what_stands_in_the_example() -> None:
    files = [path for path in EXAMPLE.rglob("*") if path.suffix in (".py", ".toml")]
    texts = [path.read_text(encoding="utf-8") for path in files]
    found = excerpts()
    assert len(found) >= 8
    assert [each for each in found if not any(each in text for text in texts)] == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_the_example_imports_nothing_of_ours_but_what_is_promised(source: Path) -> None:
    modules: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
        elif isinstance(node, ast.Import):
            modules |= {name.name for name in node.names}
    ours = ("harness", "faults", "workloads", "reports", "reference_impl")
    assert [each for each in modules if each.split(".")[0] in ours and not each.startswith("harness.extending.")] == []


@pytest.mark.parametrize("module", MODULES)
def test_what_is_promised_is_there_and_nothing_else_is_public(module: str) -> None:
    found = importlib.import_module(f"harness.extending.{module}")
    assert found.__all__ == sorted(found.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name))
    assert {name for name in vars(found) if not name.startswith("_")} == set(found.__all__)


def test_the_page_names_every_entry_point_and_module() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert MODULES == ["checks", "faults", "systems", "workloads"]
    for module in MODULES:
        assert f"`kafka_chaos.{module}`" in text


def test_a_package_is_checked_against_our_types() -> None:
    """PEP 561: without the marker mypy takes all that is imported for Any, and accepts any call."""
    written = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]
    offered = [vars(importlib.import_module(f"harness.extending.{module}")) for module in MODULES]
    modules = [str(getattr(value, "__module__", "")) for own in offered for value in own.values()]
    origins = {module.partition(".")[0] for module in modules} & {"harness", "faults", "workloads", "reports"}
    assert origins >= {"harness", "faults"}
    assert [folder for folder in origins if "py.typed" not in written[folder]] == []
    assert [folder for folder in origins if not (ROOT / folder / "py.typed").is_file()] == []
