"""Nothing is installed that the locks do not name with its hashes, and the locks name no place to fetch it from."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LOCKS = ("requirements-build.lock", "requirements.lock", "requirements-test.lock")
SHA256 = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def locked(lock: str) -> Iterator[tuple[Requirement, list[str]]]:
    """Every requirement with its options, from lines joined as pip joins them."""
    text = re.sub(r"^#.*\n", "", (ROOT / lock).read_text(encoding="utf-8"), flags=re.MULTILINE)
    for line in filter(None, text.replace("\\\n", " ").splitlines()):
        requirement, *options = re.split(r"\s+(?=--)", line.strip())
        yield Requirement(requirement), options


def pins(lock: str) -> dict[str, str]:
    return {canonicalize_name(requirement.name): str(requirement.specifier) for requirement, _ in locked(lock)}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("lock", LOCKS)
def test_every_requirement_is_one_version_with_hashes_and_nothing_else(lock: str) -> None:
    found = list(locked(lock))

    assert found
    for requirement, options in found:
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), f"{requirement} is not pinned"
        assert requirement.url is None
        assert options, f"{requirement} has no hash"
        assert all(SHA256.fullmatch(option) for option in options), f"{requirement}: {options}"


@pytest.mark.parametrize("lock", LOCKS)
def test_no_lock_names_an_index_or_any_address(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")

    assert "://" not in text
    assert not re.search(r"--(extra-)?index|--find-links|--trusted-host|^-[if] ", text, flags=re.MULTILINE)


def test_the_tests_environment_is_the_runs_with_more_in_it() -> None:
    run, test = pins("requirements.lock"), pins("requirements-test.lock")

    assert {name: test[name] for name in run.keys() & test.keys()} == {
        name: run[name] for name in run.keys() & test.keys()
    }


@pytest.mark.parametrize(
    ("lock", "declared"),
    [
        ("requirements-build.lock", project()["build-system"]["requires"]),
        ("requirements-build.lock", project()["dependency-groups"]["build"]),
        ("requirements.lock", project()["project"]["dependencies"]),
        ("requirements-test.lock", project()["dependency-groups"]["test"]),
        ("requirements-test.lock", project()["project"]["optional-dependencies"]["clients"]),
    ],
)
def test_what_the_project_declares_is_locked_at_a_version_it_allows(lock: str, declared: list[str]) -> None:
    pinned = pins(lock)

    for requirement in map(Requirement, declared):
        version = pinned[canonicalize_name(requirement.name)].removeprefix("==")
        assert requirement.specifier.contains(version), f"{lock} has {version}, the project wants {requirement}"


def test_make_installs_nothing_whose_hash_is_not_asked_for(tmp_path: Path) -> None:
    finished = subprocess.run(
        ["make", "--dry-run", f"VENV={tmp_path / 'new'}", str(tmp_path / "new" / "test.stamp")],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    installs = [line for line in finished.stdout.splitlines() if "pip install" in line]

    assert len(installs) == len(LOCKS) + 1
    assert all("--no-build-isolation" in line for line in installs)
    [ours] = [line for line in installs if "--require-hashes" not in line]
    assert ours.endswith("--no-deps --editable .")
