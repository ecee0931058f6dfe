"""What CI makes of the tests' results (.ci/results.py)."""

import subprocess
import sys
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[1] / ".ci" / "results.py"


def junit(path: Path, *, passed: int = 0, failed: tuple[str, ...] = (), skipped: int = 0, errors: int = 0) -> Path:
    cases = [f'<testcase classname="c" name="p{number}"/>' for number in range(passed)]
    cases += [f'<testcase classname="c" name="{name}"><failure/></testcase>' for name in failed]
    cases += [f'<testcase classname="c" name="s{number}"><skipped/></testcase>' for number in range(skipped)]
    cases += [f'<testcase classname="c" name="e{number}"><error/></testcase>' for number in range(errors)]
    counts = f'tests="{len(cases)}" skipped="{skipped}" failures="{len(failed)}" errors="{errors}"'
    path.write_text(f"<testsuites><testsuite {counts}>{''.join(cases)}</testsuite></testsuites>")
    return path


def results(command: str, *files: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RESULTS), command, *map(str, files)], capture_output=True, text=True, check=False
    )


def test_all_passed_is_one_line(tmp_path: Path) -> None:
    result = results("tell", junit(tmp_path / "junit.xml", passed=3))
    assert (result.returncode, result.stdout) == (0, "3 passed, 0 failed\n")


def test_what_passes_alone_is_named_and_counts(tmp_path: Path) -> None:
    first = junit(tmp_path / "junit.xml", passed=3, failed=("slow",))
    result = results("tell", junit(tmp_path / "again.xml", passed=1), first)
    assert result.returncode == 0
    assert "  c::slow" in result.stdout.splitlines()
    assert result.stdout.splitlines()[-1] == "4 passed, 0 failed"


def test_what_fails_twice_fails_the_run(tmp_path: Path) -> None:
    first = junit(tmp_path / "junit.xml", passed=3, failed=("broken",))
    result = results("tell", first, junit(tmp_path / "again.xml", failed=("broken",)))
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1] == "3 passed, 1 failed"


@pytest.mark.parametrize("wrong", [{"skipped": 1, "passed": 3}, {}], ids=["skipped", "no tests"])
def test_a_skipped_test_or_none_at_all_fails_the_run(tmp_path: Path, wrong: dict[str, int]) -> None:
    assert results("tell", junit(tmp_path / "junit.xml", **wrong)).returncode == 1  # type: ignore[arg-type]


def test_a_second_try_that_left_something_out_fails_the_run(tmp_path: Path) -> None:
    first = junit(tmp_path / "junit.xml", passed=3, failed=("one", "other"))
    assert results("tell", first, junit(tmp_path / "again.xml", passed=1)).returncode == 1


@pytest.mark.parametrize(
    ("failed", "errors", "may"), [(1, 0, True), (2, 1, True), (3, 1, False), (0, 0, False)], ids=str
)
def test_only_a_few_failures_are_tried_again(tmp_path: Path, failed: int, errors: int, may: bool) -> None:
    first = junit(tmp_path / "junit.xml", passed=5, failed=tuple(f"f{n}" for n in range(failed)), errors=errors)
    assert (results("may-try-again", first).returncode == 0) is may


def test_tests_that_did_not_run_are_not_tried_again(tmp_path: Path) -> None:
    assert results("may-try-again", tmp_path / "junit.xml").returncode == 1
