"""docs/examples/java passes as written: JUnit over the control socket, by Maven, where this machine has it.

Nothing may be skipped in CI: with KAFKA_CHAOS_CLIENTS_HERE set it is left out where Maven is not, and .ci/run tells."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.shell import HARNESS
from tests.interop.clients.table import LEAVE_OUT, maven_lacking

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "java"


def test_the_example_is_whole() -> None:
    names = {
        path.name for path in EXAMPLE.rglob("*") if path.suffix in (".java", ".xml") and "target" not in path.parts
    }
    assert names == {"pom.xml", "Shop.java", "ChaosCluster.java", "Journal.java", "ShopTest.java"}


if not (LEAVE_OUT and maven_lacking()):

    @pytest.mark.further
    @pytest.mark.timeout(1200)  # Maven's first downloads, and two verdicts, each with a JVM of its own
    @pytest.mark.skipif(bool(maven_lacking()), reason=maven_lacking())
    def test_junit_finds_the_planted_bug_over_the_control_socket(tmp_path: Path) -> None:
        shutil.copytree(EXAMPLE, tmp_path / "shop", ignore=shutil.ignore_patterns("target"))
        environment = {**os.environ, "KAFKA_CHAOS_COMMAND": " ".join(HARNESS), "PYTHONPATH": str(ROOT)}
        environment |= {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(tmp_path)}
        ended = subprocess.run(
            ["mvn", "-q", "-B", "test"],
            cwd=tmp_path / "shop",
            env=environment,
            capture_output=True,
            text=True,
            timeout=1100,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        (reported,) = (tmp_path / "shop" / "target" / "surefire-reports").glob("*.xml")
        assert 'tests="2" errors="0" skipped="0" failures="0"' in reported.read_text(encoding="utf-8")
