"""Records acknowledged by a leader that was already deposed, and the end of the pause before it did so.

Such a record was never in the successor's log: it was lost when it was acknowledged, not by a later event.
"""

from collections.abc import Sequence

from harness.checks.contract.rulings import Ruling
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.detection import Flagged
from harness.checks.wording.chain import resume_link_words
from harness.history.facts.fault_facts import begin_of
from harness.history.facts.finding_facts import ChainLink


def by_a_deposed_leader(ruling: Ruling, rows: Sequence[Flagged]) -> list[Flagged]:
    """The rows that the leader of an earlier epoch acknowledged after the deciding election."""
    election, epoch = ruling.election, ruling.epoch
    if election is None or epoch is None or epoch >= election.epoch:
        return []
    return [
        row for row in rows if row.status == 0 and row.completed_ns is not None and row.completed_ns > election.latest_t
    ]


def resume_link(
    history: PartitionHistory, ruling: Ruling, late: Sequence[Flagged], *, decides: bool
) -> ChainLink | None:
    """The end of the acknowledging leader's pause, between the election and the first of these acknowledgements.

    Its time is when the resume was requested: between that and its proof the leader may have answered already.
    """
    first = min((row.completed_ns for row in late if row.completed_ns is not None), default=None)
    leader = history.leader_of(ruling.epoch)
    if first is None or leader is None or ruling.election is None:
        return None
    for fault in reversed(history.faults_between(ruling.election.time_ns, first)):
        end = fault["end_ns"]
        if fault["kind"] != "pause" or leader not in (fault["nodes"] or ()) or end is None:
            continue
        began = min(fault["end_asked_ns"] if fault["end_asked_ns"] is not None else end, end)
        if began <= first:
            paused_s = (began - begin_of(fault)) / 1e9
            return ChainLink(
                t_ns=began, t_end_ns=end, event="resume", decisive=decides, nodes=(leader,), fault=fault["fault"],
                held_by="paused", held_s=round(paused_s, 3), leader=ruling.election.leader, epoch_before=ruling.epoch,
                epoch_after=ruling.election.epoch, sentence=resume_link_words(leader, paused_s, ruling.election),
            )  # fmt: skip
    return None
