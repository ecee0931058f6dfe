"""docs/examples/application and the plugin, installed by pip into an environment of their own, pass as written."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.end_to_end.shell import HARNESS

ROOT = Path(__file__).parents[2]
PLUGIN, EXAMPLE = ROOT / "harness" / "pytest_plugin", ROOT / "docs" / "examples" / "application"
KAFKA_PYTHON = "kafka-python>=3.0.12,<3.1"
PIP = ["pip", "--quiet", "--disable-pip-version-check"]
pytestmark = pytest.mark.timeout(900)  # two verdicts, each with a JVM of its own


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment that has the plugin, pytest and kafka-python, and nothing else."""
    folder = tmp_path_factory.mktemp("application")
    shutil.copytree(PLUGIN, folder / "plugin", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    build = [sys.executable, "-m", *PIP, "wheel", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(folder / "plugin")], check=True, timeout=200)
    venv.create(folder / "venv", with_pip=True)
    made = folder / "venv" / "bin" / "python"
    (wheel,) = folder.glob("*.whl")
    subprocess.run([str(made), "-m", *PIP, "install", str(wheel), KAFKA_PYTHON], check=True, timeout=300)
    return made


def run(python: Path, *arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    environment |= {"KAFKA_CHAOS_COMMAND": " ".join(HARNESS), "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    environment["XDG_STATE_HOME"] = str(folder / "state")
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=800, check=False
    )


def test_the_plugin_brings_nothing_but_pytest_along(python: Path) -> None:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "list", "--format=freeze"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    names = {line.partition("==")[0].lower() for line in listed.stdout.splitlines()}
    assert {"kafka-chaos-pytest", "pytest", "kafka-python"} <= names
    assert names.isdisjoint({"pyspark", "pandas", "pyarrow", "numpy", "kafka-chaos", "docker"})


def test_the_example_passes_as_written_and_finds_the_planted_bug(python: Path, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "shop", ignore=shutil.ignore_patterns("__pycache__", "runs"))
    ended = run(python, folder=tmp_path / "shop")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2 passed" in ended.stdout
    pages = [path for path in (tmp_path / "shop" / "runs").glob("*/report.html") if not path.parent.is_symlink()]
    assert len(pages) == 2


SCOPES = """
import pytest

pytestmark = pytest.mark.kafka_chaos(brokers=1, settings={"offsets.topic.replication.factor": "1"})
seen = []

def test_first(kafka_chaos_cluster, chaos):
    seen.append(kafka_chaos_cluster.bootstrap)
    assert len(kafka_chaos_cluster.state()["nodes"]) == 2
    chaos.fault("pause", __import__("kafka_chaos_pytest").broker(1)).__enter__()  # and forgotten

def test_second(kafka_chaos_cluster):
    assert kafka_chaos_cluster.state()["faults"] == []
    assert seen == [kafka_chaos_cluster.bootstrap]
"""


def test_one_cluster_serves_a_module_where_the_ini_file_says_so_and_what_a_test_forgot_is_healed(
    python: Path, tmp_path: Path
) -> None:
    (tmp_path / "test_scopes.py").write_text(SCOPES, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nkafka_chaos_scope = module\n", encoding="utf-8")
    ended = run(python, folder=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (tmp_path / "pytest.ini").write_text("[pytest]\nkafka_chaos_scope = weekly\n", encoding="utf-8")
    ended = run(python, folder=tmp_path)
    assert (ended.returncode, "kafka_chaos_scope is one of" in ended.stderr) == (4, True)
