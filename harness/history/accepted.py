"""Findings that a team knows and has accepted for a time, as results keep them: each with a reason and its last day.

Campaigns, nights and single runs take the same file (harness/campaign/accepted.py); what was accepted is kept with the
results, so that these are judged again, and elsewhere, by the same list. Its days are those of the judging: what was
accepted until a day that is over by then is set aside no more.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from harness.errors import HarnessError
from harness.history.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """until: the last day on which it is accepted."""

    fingerprint: str
    reason: str
    until: datetime.date

    def holds(self, today: datetime.date) -> bool:
        return today <= self.until

    def as_table(self) -> dict[str, str]:
        return {"fingerprint": self.fingerprint, "reason": self.reason, "until": self.until.isoformat()}

    @property
    def over_words(self) -> str:
        return f"{self.fingerprint}  was accepted until {self.until}, and is no longer: {self.reason}"

    def not_shown_by(self, whom: str) -> str:
        """whom: "no run"."""
        return f"{self.fingerprint}  is accepted, and {whom} showed it: {self.reason}"


def accepted_of(run: Mapping[str, Any]) -> Mapping[str, Accepted]:
    """What run.json says was accepted of it. Raises HarnessError where that is no such list."""
    try:
        kept = msgspec.convert(run.get("accepted") or [], list[Accepted])
    except msgspec.ValidationError as error:
        raise HarnessError(f"run.json, accepted: {error}; give the file anew with --accepted") from None
    return by_fingerprint(kept)


def keep_accepted(folder: RunFolder, accepted: Mapping[str, Accepted]) -> None:
    """In run.json, instead of what was accepted of it before."""
    folder.update(accepted=[each.as_table() for each in accepted.values()])


def today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def by_fingerprint(accepted: Sequence[Accepted]) -> Mapping[str, Accepted]:
    return {each.fingerprint: each for each in accepted}


def is_accepted(fingerprint: str, accepted: Mapping[str, Accepted], today: datetime.date) -> bool:
    return fingerprint in accepted and accepted[fingerprint].holds(today)
