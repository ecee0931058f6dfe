"""Of which commit the project and the scenario's file were when a run began: asked once, written down, never later.

Git is asked for names of commits and of what is in them, and for nothing that runs a filter, a hook or a watcher of the
repository it looks at. Whether the scenario's file is as committed is told by its own text, hashed as git hashes it.
Without git, or outside of a repository, nothing is told.
"""

import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import harness

_WITHIN_S = 5.0
_QUIET = ("-c", "core.fsmonitor=false", "--no-optional-locks", "--no-pager")
PROJECT = Path(harness.__file__).resolve().parents[1]
AS_COMMITTED, MODIFIED, NOT_COMMITTED = "as committed", "modified", "not committed"
Commit = Mapping[str, str]  # commit: its whole name; state: one of the three above


def commits(scenario: Path, text: str) -> dict[str, Commit]:
    """Of the project, and of the file whose text was read; what is not known is not in it."""
    project = commit_of_project()
    ships_with_us = scenario.resolve().is_relative_to(PROJECT)
    told = {
        "kafka-chaos": project,
        "scenario": None if project is None and ships_with_us else commit_of_file(scenario, text),
    }
    return {name: commit for name, commit in told.items() if commit is not None}


def commit_of_project(top: Path = PROJECT) -> Commit | None:
    """Only of a checkout: what was installed may lie in a repository of somebody else's."""
    if not (top / ".git").exists():
        return None
    commit = _asked(top, "rev-parse", "--verify", "HEAD")
    changed = _asked(top, "status", "--porcelain", "--untracked-files=no")
    if not commit or changed is None:
        return None
    return {"commit": commit, "state": MODIFIED if changed else AS_COMMITTED}


def commit_of_file(path: Path, text: str) -> Commit | None:
    """`text`: what was read from the file. A file that HEAD does not have is "not committed"."""
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
    """Git's answer; None where it has none, is not there, or does not come back."""
    # What git's own hooks set would lead it to their repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *_QUIET, *question],
            env=environment | {"LC_ALL": "C"}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_WITHIN_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.decode("utf-8", "replace").strip() if answer.returncode == 0 else None
