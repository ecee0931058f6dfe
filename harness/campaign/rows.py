"""What a campaign keeps of a judged run: all that its verdict, its tables and its page are made of."""

from typing import Annotated, Literal

import msgspec

from harness.campaign.situations import Situation

NOT_RUN = "not_run"
Classification = Literal["violation", "permitted", "observation"]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]  # those of many runs together still fit into a table


class FindingSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one fingerprint in one run. faults: the kinds that were in force, sorted."""

    fingerprint: str
    check: str
    classification: Classification
    cause: str
    faults: list[str]
    count: Count


class FaultMeasured(msgspec.Struct, frozen=True, kw_only=True):
    """What one fault did to the service (reports/campaign/measures.py). *_open: it never ended, the seconds are a lower
    bound."""

    fault: str
    recovery_s: float | None
    recovery_open: bool
    gap_s: float | None
    gap_open: bool
    throughput_per_s: float | None


class SituationReached(msgspec.Struct, frozen=True, kw_only=True):
    """One situation (situations.py) and how often it was reached."""

    kind: str
    role: str
    isr_size: int
    epoch_change: bool
    in_flight: str
    before: str
    times: Count

    @property
    def situation(self) -> Situation:
        fields = msgspec.structs.asdict(self)
        del fields["times"]
        return Situation(**fields)


class RunJudged(msgspec.Struct, frozen=True, kw_only=True):
    """folder: below the campaign's folder, "" where nothing is kept of the run but its summary. verdict: one of
    harness.verdict.Verdict. stated: the verdict that the scenario states. began: UTC. schedule_faults: how many faults
    and steps its scenario has."""

    number: int
    client: str
    folder: str
    verdict: str
    stated: str
    as_stated: bool
    sentence_text: str
    began: str
    took_s: float
    operations: int
    records_acknowledged: int
    schedule_faults: int
    broken_invariant: str = ""  # in a sentence; "" where none was broken
    findings: list[FindingSeen] = []
    measures: list[FaultMeasured] = []
    situations: list[SituationReached] = []
