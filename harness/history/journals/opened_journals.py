"""The journals that a run opened and their lengths at its end, because a copied folder may lack some of them.

run.json has the list (`journals`). A run whose harness was killed, or an older one, has none; then the specs of the
worker processes, in RUN/workers, show which journals must exist.
"""

from collections.abc import Mapping

from harness.errors import HarnessError
from harness.history.journals.journal import CONTROLLER_ROWS
from harness.history.journals.journal_lines import journal_paths
from harness.history.run_folder import RunFolder

_REMEDY = "put it back as the run left it, without it nothing can be judged"
_ALL_STARTED = "drain"  # the phase in which every worker has begun
_READ = "collect"  # the phase before which the final read has ended
_FINAL_READ = "final-read.jsonl"


def opened_journals(folder: RunFolder) -> dict[str, int]:
    """Their lengths in bytes by name, stored at the end of the run."""
    paths = [*journal_paths(folder.history), folder.history / CONTROLLER_ROWS]
    return {path.name: path.stat().st_size for path in paths if path.is_file()}


def check_journals(folder: RunFolder) -> None:
    """Raises HarnessError if one is missing or has another length."""
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
    """True if the lengths are unknown: then the last records sent may be missing from every journal."""
    return not folder.run.get("journals") and any(journal_paths(folder.history))


def _expected(folder: RunFolder, run: Mapping[str, object]) -> list[str]:
    phases = run.get("phases")
    entered = {phase["name"] for phase in phases} if isinstance(phases, list) else set()
    started = sorted((folder.path / "workers").glob("*.json")) if _ALL_STARTED in entered else []
    read = [_FINAL_READ] if _READ in entered else []
    return [f"{path.stem}.jsonl" for path in started] + read
