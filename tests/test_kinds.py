"""A test that starts a cluster or a JVM says so, or fails: `make quick` cannot grow them unseen."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kinds import KINDS, NOT_QUICK, QUICK_ON_SPARK, kind_of_address, kind_of_process, kinds_of

ROOT = Path(__file__).parent.parent
STORY = """
import pytest, subprocess

{mark}
def test_a_story():
    assert subprocess.run([{java!r}], check=True).returncode == 0
"""


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (["/jdk/bin/java", "-version"], "jvm"),
        ([Path("/jdk/bin/java")], "jvm"),
        ([sys.executable, "-m", "reference_impl", "broker"], "cluster"),
        ([sys.executable, "-m", "harness", "run", "demo"], "cluster"),
        ([sys.executable, "-m", "harness.history.journals.converter", "run"], None),
        ([sys.executable, "-c", "print()"], None),
        (["bash", "-c", 'exec "$0"', "/usr/bin/chromium"], "browser"),
        (["docker", "ps"], "docker"),
    ],
)
def test_a_process_has_the_kind_of_what_it_is(command: list[str | Path], kind: str | None) -> None:
    assert kind_of_process(command) == kind


def test_only_nodes_listen_in_blocks() -> None:
    assert kind_of_address(("127.77.0.1", 9092)) == "cluster"
    assert kind_of_address(("127.0.0.1", 0)) is None
    assert kind_of_address("\0a lock") is None


def test_a_kind_follows_from_folder_and_fixtures() -> None:
    assert "cluster" in kinds_of(Path("end_to_end/test_x.py"), ())
    assert kinds_of(Path("harness/test_x.py"), ("spark", "tmp_path")) == {"spark", "slow"}
    assert {kind for place in QUICK_ON_SPARK for kind in kinds_of(place, ("spark",))} == {"spark"}
    assert all((ROOT / "tests" / place).is_file() for place in QUICK_ON_SPARK)
    assert set(NOT_QUICK) <= KINDS.keys()


def test_the_makefile_leaves_out_what_is_not_quick() -> None:
    assert f"NOT_QUICK := {' or '.join(NOT_QUICK)}\n" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_make_test_leaves_out_what_is_further_and_ci_asks_for_it() -> None:
    def command(*words: str) -> str:
        # Without what a make above this test was asked for.
        above = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "FURTHER")
        bare = {name: value for name, value in os.environ.items() if name not in above}
        given = ["make", "--dry-run", "--always-make", *words]
        ended = subprocess.run(given, cwd=ROOT, env=bare, capture_output=True, text=True, check=True)
        return ended.stdout.splitlines()[-1]

    (asked,) = re.findall(r"make (test \S*)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert command("test").endswith('-m "not further"')
    assert "-m pytest" in command(*asked.split())
    assert "further" not in command(*asked.split())


@pytest.mark.parametrize(("mark", "passes"), [("", False), ("@pytest.mark.jvm", True)])
def test_a_test_that_starts_what_it_does_not_say_fails(mark: str, passes: bool, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    (tmp_path / "test_story.py").write_text(STORY.format(mark=mark, java=str(java)))
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "--noconftest"]
    ended = subprocess.run(
        [*command, "-c", "/dev/null", f"--rootdir={tmp_path}", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode == 0) == passes, ended.stdout + ended.stderr
    assert ("mark it or its module with @pytest.mark.jvm" in ended.stdout) != passes
