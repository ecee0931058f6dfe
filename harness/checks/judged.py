"""What became of a run folder that was to be judged."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import HarnessError
from harness.verdict import Verdict

if TYPE_CHECKING:
    from harness.checks.judge import Judgement


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A run that was done and judged. `page` is None when rendering failed; `page_error` says why."""

    folder: Path
    judgement: "Judgement"
    page: Path | None
    page_error: str

    @property
    def verdict(self) -> Verdict:
        return self.judgement.verdict


@dataclass(frozen=True, kw_only=True)
class NotJudged:
    """A run folder that cannot be judged. It costs the others nothing."""

    folder: Path
    error: HarnessError

    @property
    def verdict(self) -> Verdict:
        return Verdict.ERROR
