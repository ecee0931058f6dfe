"""What a run was made with, determined once when it begins: versions, and the commits of project and scenario.

Git is asked only for names of commits and their contents, never for anything that runs a filter, a hook or a watcher
of the repository. Whether the scenario's file equals the committed one is decided by its text, hashed as git does it.
Without git, or outside of a repository, nothing is recorded.
"""

import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import harness
from harness import extensions

_WITHIN_S = 5.0
_QUIET = ("-c", "core.fsmonitor=false", "--no-optional-locks", "--no-pager")
PROJECT = Path(harness.__file__).resolve().parents[1]
AS_COMMITTED, MODIFIED, NOT_COMMITTED = "as committed", "modified", "not committed"
Commit = Mapping[str, str]  # commit: its whole name; state: one of the three above


def commits(scenario: Path, text: str) -> dict[str, Commit]:
    """The commits of the project and of the file whose text was read; unknown ones are left out."""
    project = commit_of_project()
    ships_with_us = scenario.resolve().is_relative_to(PROJECT)
    found = {
        "kafka-chaos": project,
        "scenario": None if project is None and ships_with_us else commit_of_file(scenario, text),
    }
    return {name: commit for name, commit in found.items() if commit is not None}


def commit_of_project(top: Path = PROJECT) -> Commit | None:
    """Only for a checkout: an installed package may be inside another repository."""
    if not (top / ".git").exists():
        return None
    commit = _asked(top, "rev-parse", "--verify", "HEAD")
    changed = _asked(top, "status", "--porcelain", "--untracked-files=no")
    if not commit or changed is None:
        return None
    return {"commit": commit, "state": MODIFIED if changed else AS_COMMITTED}


def commit_of_file(path: Path, text: str) -> Commit | None:
    """The commit of a file. `text`: its content. A file that HEAD does not have is "not committed"."""
    real = path.resolve()
    commit = _asked(real.parent, "rev-parse", "--verify", "HEAD")
    if not commit:
        return None
    blob = _asked(real.parent, "rev-parse", "--verify", f"HEAD:./{real.name}")
    if not blob:
        return {"commit": commit, "state": NOT_COMMITTED}
    content = text.encode()
    hashed = hashlib.new("sha256" if len(blob) == 64 else "sha1", b"blob %d\0" % len(content), usedforsecurity=False)
    hashed.update(content)
    return {"commit": commit, "state": AS_COMMITTED if hashed.hexdigest() == blob else MODIFIED}


def _asked(folder: Path, *question: str) -> str | None:
    """Git's answer; None if it fails, is not installed, or does not return in time."""
    # Variables that git sets for its hooks would point it to another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *_QUIET, *question],
            env=environment | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.decode("utf-8", "replace").strip() if answer.returncode == 0 else None


def versions() -> dict[str, str]:
    found = {"kafka-chaos": version("kafka-chaos"), "Python": platform.python_version()}
    found |= {name: version(name) for name in ("kafka-python", "pyspark")}
    found |= extensions.packages()
    return found | {"machine": f"{platform.system()} {platform.release()}, {os.cpu_count()} cores"}


def stamp(wall_ns: int) -> str:
    return datetime.fromtimestamp(wall_ns / 1e9, UTC).strftime("%Y%m%d-%H%M%S")
