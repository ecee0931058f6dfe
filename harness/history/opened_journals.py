"""The journals that a run opened, and how long they were when it was over: a folder may have come without some of them.

run.json keeps it (`journals`). A run whose harness was killed has no such list, and older ones have none either: there
the worker processes tell by their specs, in RUN/workers, whose journal there has to be.
"""

from collections.abc import Mapping

from harness.errors import HarnessError
from harness.history.journal import CONTROLLER_ROWS
from harness.history.pieces import journal_paths
from harness.history.run_folder import RunFolder

_REMEDY = "put it back as the run left it, without it nothing can be judged"
_ALL_STARTED = "drain"  # the phase by which every worker has begun
_READ = "collect"  # the phase before which the final read is over
_FINAL_READ = "final-read.jsonl"


def opened_journals(folder: RunFolder) -> dict[str, int]:
    """Their lengths by name, to be kept when the run is over."""
    paths = [*journal_paths(folder.history), folder.history / CONTROLLER_ROWS]
    return {path.name: path.stat().st_size for path in paths if path.is_file()}


def check_journals(folder: RunFolder) -> None:
    """Raises HarnessError where one is missing or is not as long as it was."""
    run = folder.run
    lengths: Mapping[str, int] = run.get("journals") or {}
    for name, length in sorted(lengths.items()):
        path = folder.history / name
        if not path.exists():
            raise HarnessError(f"{path} is missing, one of the {len(lengths)} journals of the run: {_REMEDY}")
        if path.is_file() and path.stat().st_size != length:
            raise HarnessError(f"{path} has {path.stat().st_size} bytes, and had {length} at the run's end: {_REMEDY}")
    for name in [] if lengths else _expected(folder, run):
        if not (folder.history / name).exists():
            raise HarnessError(f"{folder.history / name} is missing, a journal that the run opened: {_REMEDY}")


def may_lack_their_end(folder: RunFolder) -> bool:
    """Whether nobody kept how long the journals were: what was sent last may be in none of them."""
    return not folder.run.get("journals") and any(journal_paths(folder.history))


def _expected(folder: RunFolder, run: Mapping[str, object]) -> list[str]:
    phases = run.get("phases")
    entered = {phase["name"] for phase in phases} if isinstance(phases, list) else set()
    started = sorted((folder.path / "workers").glob("*.json")) if _ALL_STARTED in entered else []
    read = [_FINAL_READ] if _READ in entered else []
    return [f"{path.stem}.jsonl" for path in started] + read
