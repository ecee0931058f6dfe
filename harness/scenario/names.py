"""The names of scenarios: the shipped ones, files, and run folders, which are scenarios themselves."""

import difflib
from collections.abc import Sequence
from pathlib import Path

from harness.errors import UsageError

NAME_SHOWN = 100  # characters shown of a wrong name; a longer one is not a typing error
SHIPPED = Path(__file__).parents[1] / "scenarios"


def nearest(name: str, known: Sequence[str]) -> str:
    """The remedy for an unknown name: the nearest known one, or all of them."""
    close = difflib.get_close_matches(name[:NAME_SHOWN], known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known))}"


def shipped_names() -> list[str]:
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def seed_names() -> list[str]:
    """The scenarios that test the claims of docs/seed_claims.md."""
    return sorted(f"seeds/{path.stem}" for path in SHIPPED.glob("seeds/*.toml"))


def find(reference: str) -> Path:
    """The file of a shipped scenario, of a TOML path, or of a run folder (its written-out scenario)."""
    path = Path(reference)
    if path.is_dir():
        written = path / "scenario.toml"
        if not written.is_file():
            raise UsageError(f"{reference}: no run folder (it has no scenario.toml); give a scenario's name or file")
        return written
    if path.suffix == ".toml":
        if not path.is_file():
            raise UsageError(f"{reference}: no such file")
        return path
    shipped = SHIPPED / f"{reference}.toml"
    if not shipped.is_file():
        raise UsageError(f"unknown scenario {reference!r}; {nearest(reference, [*shipped_names(), *seed_names()])}")
    return shipped


def is_run(reference: str) -> bool:
    """Whether the reference is a run folder, not a scenario's name or file."""
    return Path(reference).is_dir()


def lasting(reference: str) -> str:
    """The reference as given; a link beside a run folder, such as `latest`, is resolved, since it will change."""
    path = Path(reference)
    if is_run(reference) and path.is_symlink() and path.resolve().parent == path.parent.resolve():
        return str(path.parent / path.resolve().name)
    return reference
