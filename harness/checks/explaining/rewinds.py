"""Why a later record could get a lower offset: the log's end had moved back before, for a permitted or unknown reason.

There are three explanations that are proved. An election may have removed the records above it (committed ones, unless
they were acknowledged with acks=1 only). Or every acknowledged record above it was lost without breaking the contract.
Or a deposed leader acknowledged it, whose log is not part of the partition's. None of them holds if the final log has
it together with the records above it. Where not all elections and epochs are known, the end may have moved back unseen
(`unseen`): a doubt, unless a loss above it is a violation already.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.contract.rewind import lawful_rewind, unseen_rewind
from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, CauseCode, Class, Ruling
from harness.checks.findings import RunContext
from harness.checks.model.elections import Election
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import Flagged
from harness.history.schema.column_types import END_OF_TIME_NS


@dataclass(frozen=True, kw_only=True)
class Rewind:
    """`open_question`: nothing but this says that the run is undecided."""

    classification: Class
    cause: Cause
    open_question: bool = False


def under_a_reader(
    history: PartitionHistory,
    *,
    offset: int,
    epoch: int | None,
    time_ns: int | None,
    since_ns: int | None = None,
    code: CauseCode,
) -> Rewind:
    """Why a reader may lawfully have found that the log's end had moved back to `offset` or below.

    Readers see committed records only. since_ns: the reader saw the record at the offset then. code: what the cause is
    called if an election explains it.
    """
    election = lawful_rewind(history, offset=offset, epoch=epoch, time_ns=time_ns, strict=True, since=since_ns)
    if election is not None:
        return Rewind(classification="permitted", cause=Cause(code=code, epoch=election.epoch, offset=election.start))
    doubt = unseen_rewind(history, offset=offset, time_ns=time_ns, strict=True, since_ns=since_ns)
    if doubt is not None:
        cause = Cause(code="rewound-in-doubt", doubt=doubt)
        return Rewind(classification="observation", cause=cause, open_question=True)
    return Rewind(classification="violation", cause=NOTHING_PERMITS_IT)


class _Lost:
    """A partition's lost records by offset; finds the earliest acknowledgement at or above an offset."""

    def __init__(self, rows: Sequence[tuple[Flagged, Ruling]]) -> None:
        placed = sorted(
            ((row.offset or 0, row.completed_ns, ruling) for row, ruling in rows if row.completed_ns is not None),
            key=_place,
        )
        self._offsets = [offset for offset, _, _ in placed]
        self._earliest: list[tuple[int, Ruling | None]] = [(END_OF_TIME_NS, None)]
        for _, t, ruling in reversed(placed):
            self._earliest.append(min(self._earliest[-1], (t, ruling), key=lambda pair: pair[0]))
        self._earliest.reverse()

    def above(self, offset: int, before: int) -> Ruling | None:
        """The ruling on a record at or above the offset that was acknowledged before that time."""
        t, ruling = self._earliest[bisect_left(self._offsets, offset)]
        return ruling if t < before else None


def _place(entry: tuple[int, int, Ruling]) -> int:
    return entry[0]


class Rewinds:
    """Explanations for one run. Each partition's lost records are ruled on once. of_its_process: a record is held
    against the others of its own process alone, so that what others lost explains nothing, and forbids nothing."""

    def __init__(self, context: RunContext, *, of_its_process: bool = False) -> None:
        self._context = context
        self._of_its_process = of_its_process
        self._ruled: dict[int, Sequence[tuple[Flagged, Ruling]]] = {}
        self._lost: dict[tuple[int, int | None], dict[str, _Lost]] = {}

    def of(self, history: PartitionHistory, row: Flagged) -> Rewind | None:
        """The explanation; None if there is none."""
        election = self._by_election(history, row)
        if election is not None:
            cause = Cause(code="rewound-by-election", epoch=election.epoch, offset=election.start)
            return Rewind(classification="permitted", cause=cause)
        return self._by_losses(history, row) or self._by_a_zombie(history, row)

    def unseen(self, history: PartitionHistory, row: Flagged) -> Rewind | None:
        """For a row that nothing else explains: that it may have been lawful and unseen; None if nothing could be."""
        lost = "lost" in row.flags and self._context.ruling(history, row).classification == "violation"
        if lost or row.above_kept or row.invoked_ns is None:
            return None
        if self._of(history, row)["violation"].above(row.offset or 0, row.invoked_ns) is not None:
            return None
        doubt = unseen_rewind(history, offset=row.offset or 0, time_ns=row.completed_ns, strict=row.below_acks_all)
        if doubt is None:
            return None
        cause = Cause(code="rewound-in-doubt", doubt=doubt)
        return Rewind(classification="observation", cause=cause, open_question=True)

    def under_a_position(
        self, history: PartitionHistory, position: int, *, since_ns: int, until_ns: int
    ) -> Rewind | None:
        """Why a consumer that was to go on at `position` may have found the log's end below that; None if nothing
        explains it. Its reset policy then says where it goes on."""
        rewind = under_a_reader(
            history,
            offset=position - 1,
            epoch=None,
            time_ns=until_ns,
            since_ns=since_ns,
            code="rewound-under-the-consumer",
        )
        lost = self._of(history)
        if rewind.classification != "violation" or lost["violation"].above(position - 1, until_ns) is not None:
            return rewind if rewind.classification != "violation" else None
        ruling = lost["permitted"].above(position - 1, until_ns)
        if ruling is None:
            return None
        return Rewind(classification="permitted", cause=Cause(code="lost-above-it", by=ruling.cause))

    @staticmethod
    def _by_election(history: PartitionHistory, row: Flagged) -> Election | None:
        if row.above_kept:
            return None
        return lawful_rewind(
            history, offset=row.offset or 0, epoch=row.epoch, time_ns=row.completed_ns, strict=row.below_acks_all
        )

    def _by_losses(self, history: PartitionHistory, row: Flagged) -> Rewind | None:
        if row.above_kept or row.invoked_ns is None:
            return None
        lost = self._of(history, row)
        if lost["violation"].above(row.offset or 0, row.invoked_ns) is not None:
            return None
        undecided = lost["observation"].above(row.offset or 0, row.invoked_ns)
        if undecided is not None:
            cause = Cause(code="lost-above-it-in-doubt", doubt=undecided.undecided)
            return Rewind(classification="observation", cause=cause)
        ruling = lost["permitted"].above(row.offset or 0, row.invoked_ns)
        if ruling is None:
            return None
        return Rewind(classification="permitted", cause=Cause(code="lost-above-it", by=ruling.cause))

    def _of(self, history: PartitionHistory, row: Flagged | None = None) -> dict[str, _Lost]:
        process = None if row is None or not self._of_its_process else row.process
        key = history.partition_id, process
        if key not in self._lost:
            concerned = [pair for pair in self._rulings(history) if process in (None, pair[0].process)]
            self._lost[key] = {
                name: _Lost([pair for pair in concerned if pair[1].classification == name])
                for name in ("violation", "permitted", "observation")
            }
        return self._lost[key]

    def _rulings(self, history: PartitionHistory) -> Sequence[tuple[Flagged, Ruling]]:
        number = history.partition_id
        if number not in self._ruled:
            rows = [row for row in self._context.flagged if row.partition_id == number and "lost" in row.flags]
            self._ruled[number] = [(row, self._context.ruling(history, row)) for row in rows]
        return self._ruled[number]

    def _by_a_zombie(self, history: PartitionHistory, row: Flagged) -> Rewind | None:
        """Whether a leader acknowledged it after it had been replaced, and its loss is permitted."""
        if "lost" not in row.flags or row.completed_ns is None:
            return None
        ruling = self._context.ruling(history, row)
        election = ruling.election
        if ruling.classification == "observation":
            cause = Cause(code="lost-itself-in-doubt", doubt=ruling.undecided)
            return Rewind(classification="observation", cause=cause)
        if ruling.classification != "permitted" or election is None or election.earliest_t > row.completed_ns:
            return None
        cause = Cause(code="acknowledged-by-a-deposed-leader", epoch=election.epoch)
        return Rewind(classification="permitted", cause=cause)
