"""Reads the files that describe a campaign: what is wrong with one of them is one line that names it."""

from pathlib import Path
from typing import Any

from harness.errors import HarnessError, UsageError
from harness.history.schema.texts import text_of
from harness.scenario.file import document_of


def toml_of(file: Path, *, what: str) -> tuple[str, dict[str, Any]]:
    """The text and what it says. what: the kind of file, for the message. Raises UsageError."""
    if not file.exists():
        raise UsageError(f"{file}: no such {what}")
    try:
        text = text_of(file)
    except HarnessError as error:
        raise UsageError(str(error)) from error
    return text, document_of(text, str(file))
