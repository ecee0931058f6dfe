"""run.json names the commits that a run was made of, as they were when it began."""

import subprocess
from pathlib import Path

import pytest

from harness.history.run_origin import commit_of_file, commit_of_project


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.invalid", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)
    top = tmp_path / "a repository"
    (top / "scenarios").mkdir(parents=True)
    git(top, "init", "--quiet")
    (top / "scenarios" / "mine.toml").write_text("# one\n")
    git(top, "add", ".")
    git(top, "commit", "--quiet", "-m", "one")
    return top


def test_a_file_as_committed_modified_and_not_committed_are_told_apart(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    path = repository / "scenarios" / "mine.toml"
    assert commit_of_file(path, "# one\n") == {"commit": head, "state": "as committed"}
    assert commit_of_file(path, "# two\n") == {"commit": head, "state": "modified"}
    assert commit_of_file(path.with_name("new.toml"), "# new\n") == {"commit": head, "state": "not committed"}


def test_outside_of_a_repository_nothing_is_reported(tmp_path: Path) -> None:
    assert commit_of_file(tmp_path / "mine.toml", "# one\n") is None
    assert commit_of_project(tmp_path) is None


def test_a_checkout_says_whether_it_was_modified_and_an_installed_copy_in_a_foreign_one_says_nothing(
    repository: Path,
) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert commit_of_project(repository) == {"commit": head, "state": "as committed"}
    (repository / "scenarios" / "mine.toml").write_text("# two\n")
    assert commit_of_project(repository) == {"commit": head, "state": "modified"}
    assert commit_of_project(repository / "scenarios") is None


def test_what_a_hook_of_git_sets_leads_to_no_other_repository(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    head = git(repository, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert commit_of_file(repository / "scenarios" / "mine.toml", "# one\n") == {
        "commit": head,
        "state": "as committed",
    }


def test_a_repository_runs_nothing_of_its_own(repository: Path, tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    for key in ("core.fsmonitor", "filter.trap.clean"):
        git(repository, "config", key, f"touch '{trap}'; cat")
    (repository / ".gitattributes").write_text("*.toml filter=trap\n")
    path = repository / "scenarios" / "mine.toml"
    path.write_text("# two\n")
    assert commit_of_file(path, "# two\n") == {"commit": git(repository, "rev-parse", "HEAD"), "state": "modified"}
    assert not trap.exists()
