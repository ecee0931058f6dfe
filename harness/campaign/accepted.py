"""Findings that a team knows and has accepted for a time: a TOML file of fingerprints, each with a reason and a date.

```toml
[[accepted]]
fingerprint = "1f6e0b2c9d3a4455"
reason = "KAFKA-12345, fixed in the next release"
until = 2027-01-31
```
"""

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, Place, Problem, Problems, UsageError, nearest
from harness.history.accepted import Accepted
from harness.history.schema.texts import text_of
from harness.scenario.file import document_of
from harness.scenario.places import Places

KEYS = ("fingerprint", "reason", "until")


def toml_of(file: Path, *, what: str) -> tuple[str, dict[str, Any]]:
    """The text and what it says. what: the kind of file, for the message. Raises UsageError."""
    if not file.exists():
        raise UsageError(f"{file}: no such {what}")
    try:
        text = text_of(file)
    except HarnessError as error:
        raise UsageError(str(error)) from error
    return text, document_of(text, str(file))


def read_accepted(file: Path) -> Mapping[str, Accepted]:
    """By fingerprint. Raises UsageError: what is wrong must not count as accepted."""
    text, document = toml_of(file, what="file of accepted findings")
    places = Places(text=text, file=str(file))
    problems = [
        Problem(place=places.section(key), what=f"unknown section [{key}]; {nearest(key, ['accepted'])}")
        for key in document
        if key != "accepted"
    ]
    tables = document.get("accepted", [])
    if not isinstance(tables, list):
        raise UsageError(f"{places.section('accepted')}: write [[accepted]]: it can be repeated")
    found: dict[str, Accepted] = {}
    for index, table in enumerate(tables):
        wrong = list(_wrong(table, places, index))
        problems += wrong
        if not wrong:
            accepted = Accepted(**table)
            if accepted.fingerprint in found:
                what = f"fingerprint {accepted.fingerprint} is accepted twice"
                problems.append(Problem(place=places.section("accepted", index), what=what))
            found[accepted.fingerprint] = accepted
    if problems:
        raise Problems(problems)
    return found


def _wrong(table: Any, places: Places, index: int) -> list[Problem]:
    place: Place = places.section("accepted", index)
    if not isinstance(table, dict):
        return [Problem(place=place, what="write [[accepted]]: it can be repeated")]
    problems = [
        Problem(place=places.key("accepted", key, index=index), what=f"unknown key {key!r}; {nearest(key, KEYS)}")
        for key in table
        if key not in KEYS
    ]
    for key in ("fingerprint", "reason"):
        if not isinstance(table.get(key), str) or not table[key].strip():
            problems.append(Problem(place=place, what=f"an accepted finding needs a {key}, a text"))
    until = table.get("until")
    if not isinstance(until, datetime.date) or isinstance(until, datetime.datetime):
        problems.append(Problem(place=place, what="an accepted finding needs the last day of it: until = 2027-01-31"))
    return problems
