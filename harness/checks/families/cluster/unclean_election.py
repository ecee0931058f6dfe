"""Unclean elections and their effects: the elected broker, the ISR before, the cut records, the faults in force.

If the configuration allows it, it is an observation, or permitted if acknowledged records were lost by it; if the
configuration forbids it, the election itself is a violation, with or without a loss. If it is unknown whether it was
allowed, it is an observation that makes the run inconclusive.
"""

from collections.abc import Sequence
from typing import Any

from harness.checks.contract.rulings import Cause, Class
from harness.checks.explaining.chain import fault_words
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.model.elections import Election
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.wording.rulings import log_end_words, permission_words, reading_words
from harness.checks.wording.words import nodes_words, plural, ranges


def find(context: RunContext) -> list[Finding]:
    losses: dict[tuple[str | None, int | None, int | None], list[Finding]] = {}  # to count the losses of each election
    for loss in context.found.get("lost-write", ()):
        losses.setdefault((loss.topic, loss.partition, loss.epoch), []).append(loss)
    return [
        _finding(context, history, election, losses.get((history.topic, history.partition, election.epoch), ()))
        for history in context.history.partitions.values()
        for election in history.elections
        if election.unclean
    ]


def _finding(context: RunContext, history: PartitionHistory, election: Election, own: Sequence[Finding]) -> Finding:
    lost = sum(loss.count for loss in own)
    cuts = [cut for cut in history.truncations if cut.epoch is not None and cut.epoch == election.epoch]
    faults = history.faults_between(
        election.time_ns - election.uncertainty_ns, election.time_ns + election.uncertainty_ns
    )
    before = max((each.epoch for each in history.elections if each.epoch < election.epoch), default=None)
    end = log_end_words(election)
    elr = f" and the eligible leader replicas ({nodes_words(election.elr_before)})" if election.elr_before else ""
    sentence = (
        f"Broker {election.leader}, outside the ISR ({nodes_words(election.isr_before)}){elr}, was elected leader of "
        f"{history.name} in epoch {election.epoch}{'' if before is None else f' after epoch {before}'} with {end} "
        f"({permission_words(election.permission)}); {plural(lost, 'acknowledged record')} lost"
    )
    if cuts:
        cut_words = (f"broker {cut.node} truncated {ranges(range(cut.to_offset, cut.from_offset))}" for cut in cuts[:3])
        sentence += "; " + ", ".join(cut_words)
    if faults:
        sentence += f"; in force: {', '.join(fault_words(fault) for fault in faults[:3])}"
    if not history.exact:
        sentence += "; the ISR before is what a broker was last heard to say, and may have changed since"
    forbidden = election.allowed is False and history.exact
    classification: Class = "violation" if forbidden else "permitted" if lost and election.allowed else "observation"
    unknown = election.allowed is None and history.exact
    return Finding(
        run=context.run,
        check="unclean-election",
        classification=classification,
        kind="election",
        topic=history.topic,
        partition=history.partition,
        count=lost if lost else 1,
        sentence=sentence + ".",
        epoch=election.epoch,
        cause=permission_cause(election),
        open_question=unknown,
        first_ns=election.time_ns,
        last_ns=election.time_ns,
        faults=[row["fault"] for row in faults],
        offsets=[election.start] if election.start is not None else [],
        evidence=_evidence(election, before, cuts, lost, [loss.sentence for loss in own]),
    )


def permission_cause(election: Election) -> Cause:
    permission = election.permission
    settings = (permission.setting,) if permission.setting is not None else ()
    return Cause(code=permission.source, election=election, settings=settings)


def _evidence(
    election: Election, before: int | None, cuts: Sequence[Any], lost: int, consequences: Sequence[str]
) -> dict[str, Any]:
    return {
        "elected": election.leader,
        "elected_log_end": election.start,
        "elected_log_end_from": reading_words(election.start_from),
        "epoch_before": before,
        "epoch_after": election.epoch,
        "leader_before": election.leader_before,
        "isr_before": list(election.isr_before),
        "elr_before": list(election.elr_before),
        "isr_after": list(election.isr),
        "allowed": election.allowed,
        "allowed_by": permission_words(election.permission),
        "lost": lost,
        "consequences": list(consequences[:10]),
        "truncations": [
            {
                "node": cut.node,
                "t_ns": cut.time_ns,
                "leader_epoch": cut.epoch,
                "from_offset": cut.from_offset,
                "to_offset": cut.to_offset,
                "reason": cut.reason,
            }
            for cut in cuts[:10]
        ],
    }


FAMILY = Family(name="unclean-election", find=find)
