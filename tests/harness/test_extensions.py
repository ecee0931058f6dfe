"""What packages add is found, checked and, where it is not right, refused in one line that says whose it is."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import extensions
from harness.errors import HarnessError
from tests.harness.installing import install

GROUP = extensions.CHECKS
Install = Callable[..., None]


@dataclass(frozen=True)
class Thing:
    name: str


class Base:
    name = "base"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package with things of one group, made by the source of its only module."""
    here = str(Path(__file__).parents[2])
    monkeypatch.syspath_prepend(tmp_path)
    made: list[str] = []

    def put(package: str, source: str = "", **things: str) -> None:
        module = f"{package.replace('-', '_')}_{tmp_path.name.replace('-', '_')}"
        made.append(module)
        text = f"import sys; sys.path.append({here!r})\nfrom {__name__} import Base, Thing\n{source}\n"
        points = {name: f"{module}:{value}" for name, value in things.items()}
        install(tmp_path, package, entry_points={GROUP: points}, modules={module: text})
        extensions.forget()

    extensions.forget()
    yield put
    extensions.forget()
    for module in made:
        sys.modules.pop(module, None)


def refusal(*, own: tuple[str, ...] = ()) -> str:
    with pytest.raises(HarnessError) as caught:
        extensions.load(GROUP, Thing, own=own)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_installed_is_found_in_the_order_of_its_names(installed: Install) -> None:
    installed("two-things", "B, A = Thing('b'), Thing('a')", b="B", a="A")
    installed("one-thing", "C = Thing('c')", c="C")
    assert extensions.names(GROUP) == ["a", "b", "c"]
    assert extensions.load(GROUP, Thing) == [Thing("a"), Thing("b"), Thing("c")]
    assert {"one-thing": "1.0", "two-things": "1.0"}.items() <= extensions.packages().items()
    assert extensions.package_of(GROUP, "c") == "one-thing 1.0"
    assert extensions.package_of(GROUP, "d") == ""


def test_classes_are_found_as_well_and_one_by_its_name(installed: Install) -> None:
    installed("a-class", "class A(Base):\n    name = 'a'", a="A")
    (found,) = extensions.load_classes(GROUP, Base)
    assert issubclass(found, Base)
    assert extensions.class_named(GROUP, "a", Base) is found
    assert extensions.class_named(GROUP, "b", Base) is None


def test_nothing_is_imported_before_somebody_asks_for_it(installed: Install) -> None:
    installed("broken", "raise OSError('imported')", a="A")
    installed("sound", "class B(Base):\n    name = 'b'", b="B")
    assert extensions.names(GROUP) == ["a", "b"]
    assert extensions.class_named(GROUP, "b", Base) is not None, "the other one is not imported with it"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise OSError('no such luck')", "(OSError: no such luck, broken_"),
        ("import there_is_no_such_module", "(ModuleNotFoundError: No module named 'there_is_no_such_module', broken_"),
        ("def", "(SyntaxError: invalid syntax"),
        ("raise SystemExit(0)", "(SystemExit: 0, broken_"),
        ("", "has no attribute 'A')"),
    ],
)
def test_a_broken_package_is_one_line_with_its_name_the_reason_and_the_remedy(
    installed: Install, source: str, said: str
) -> None:
    installed("broken", source, a="A")
    message = refusal()
    assert message.startswith("package broken 1.0, entry point 'a' of kafka_chaos.checks: broken_")
    assert said in message
    assert "`pip uninstall broken`" in message


def test_a_package_whose_entry_points_are_no_text_is_named(installed: Install, tmp_path: Path) -> None:
    installed("spoilt", "A = Thing('a')", a="A")
    (tmp_path / "spoilt-1.0.dist-info" / "entry_points.txt").write_bytes(b"[kafka_chaos.checks]\n\xff = a:b\n")
    assert refusal().startswith("package spoilt 1.0: its entry points cannot be read (")


def test_what_is_of_another_kind_is_refused(installed: Install) -> None:
    installed("odd", "A = 3", a="A")
    assert "leads to an object of type int, and must lead to one of type Thing" in refusal()
    with pytest.raises(HarnessError, match="must lead to a class that derives from Base"):
        extensions.load_classes(GROUP, Base)


def test_a_class_that_leaves_something_undone_is_refused(installed: Install) -> None:
    source = """
from abc import ABC, abstractmethod
class A(Base, ABC):
    name = "a"
    @abstractmethod
    def act(self) -> None: ...
"""
    installed("undone", source, a="A")
    with pytest.raises(HarnessError, match=r"package undone 1\.0, .*: A lacks act; add it"):
        extensions.load_classes(GROUP, Base)


def test_a_thing_with_another_name_than_its_entry_point_is_refused(installed: Install) -> None:
    installed("odd", "A = Thing('b')", a="A")
    assert "calls itself 'b'; give both the same name" in refusal()


def test_a_name_that_is_taken_is_refused_and_both_sides_are_named(installed: Install) -> None:
    installed("first", "A = Thing('a')", a="A")
    assert "the name 'a' is kafka-chaos's own; choose another one" in refusal(own=("a",))
    installed("second", "A = Thing('a')", a="A")
    message = refusal()
    assert "package first 1.0" in message
    assert "package second 1.0" in message


def test_a_command_begins_without_importing_what_is_installed(tmp_path: Path) -> None:
    groups = {group: {"a": "broken_at_start:A"} for group in extensions.GROUPS}
    install(tmp_path, "broken", entry_points=groups, modules={"broken_at_start": "raise OSError"})
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import harness.cli.main"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0


def test_what_a_user_has_installed_where_the_tests_run_changes_none_of_them(tmp_path: Path) -> None:
    install(tmp_path, "users-own", entry_points={GROUP: {"a": "users_own:A", "own": "users_own:A"}})
    here = f"{__file__}::{test_what_is_installed_is_found_in_the_order_of_its_names.__name__}"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", here],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
