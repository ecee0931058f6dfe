"""The chain of causes of a loss, in order of time, each with its evidence; causes without a record are left out."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from harness.checks.contract.rulings import Ruling
from harness.checks.explaining.chain import (
    DEPOSED_WORDS,
    cut_link_words,
    disk_link_words,
    election_link_words,
    end_link_words,
    fault_link_words,
    held_words,
    remedy_words,
    resume_link_words,
    shrink_words,
)
from harness.checks.findings import lost_record_of
from harness.checks.model.elections import NOWHERE, Election, Reading
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.partition_history import PartitionHistory, Truncation
from harness.checks.model.unclean_rules import UNCLEAN_KEY
from harness.checks.spark.detection import Flagged
from harness.checks.wording.rulings import reading_words, rules_as_json
from harness.checks.wording.words import acks_words, epochs_words, offsets_words, plural
from harness.history.facts.fault_facts import begin_of, begun, struck_links
from harness.history.facts.finding_facts import ChainLink, Hold, LinkEvent, Remedy
from harness.history.schema.cluster_rows import FaultRow, NodeEndRow, PartitionStateRow
from harness.ports.cluster import COORDINATION

_LINKS_MAX = 12
_FAULTS_MAX = 4
# Among links of the same moment, the cause comes first.
_BY_CAUSE: Sequence[LinkEvent] = (
    "fault",
    "node-end",
    "disk-loss",
    "isr-shrink",
    "election",
    "resume",
    "acknowledged",
    "truncation",
)
_HOLDS: Mapping[str, Hold] = {"pause": "paused", "kill": "dead", "stop": "down", "wipe": "down", "damage": "down"}


def loss_evidence(history: PartitionHistory, ruling: Ruling, rows: Sequence[Flagged]) -> dict[str, Any]:
    """Returns what the page needs to explain these rows: rules, chain, truncation, log ends, prevention; bounded."""
    election = ruling.election
    cuts = cuts_of(history, ruling, rows)
    in_sync = in_sync_at_acknowledgement(history, ruling, rows)
    remedies = (
        prevention(ruling, lost_record_of(history, rows[0]), in_sync=in_sync, replicas=len(history.replicas))
        if rows
        else []
    )
    return {
        "rules": rules_as_json(ruling),
        "cause": ruling.cause,
        "by_time": ruling.by_time,
        "cause_chain": [link.as_dict() for link in cause_chain(history, ruling, rows, cuts)],
        "elected": election.leader if election else None,
        "elected_epoch": election.epoch if election else None,
        "elected_log_end": election.start if election else None,
        "elected_log_end_from": reading_words(election.start_from) if election else None,
        "unclean": election.unclean if election else None,
        "leader_before": election.leader_before if election else None,
        "isr_before": list(election.isr_before) if election else [],
        "elr_before": list(election.elr_before) if election else [],
        "isr_after": list(election.isr) if election else [],
        "truncation": _cut(cuts[0]) if cuts else None,
        "truncations": [_cut(cut) for cut in cuts[:10]],
        "disk_losses": [
            {"node": loss.node, "t_ns": loss.time_ns, "fault": loss.fault, "evidence": loss.evidence}
            for loss in ruling.disk_losses
        ],
        "log_ends": log_ends(history, ruling, cuts),
        "lost_range": _range(rows),
        "isr_at_acknowledgement": list(in_sync),
        "remedies": [remedy.as_dict() for remedy in remedies],
        "prevention": [remedy_words(remedy) for remedy in remedies],
    }


def in_sync_at_acknowledgement(history: PartitionHistory, ruling: Ruling, rows: Sequence[Flagged]) -> tuple[int, ...]:
    """The largest ISR in force when one of these rows was acknowledged; () unless it is known for all of them.

    A deposed leader that does not know it yet acknowledges by an outdated ISR.
    """
    states = [history.state_at(row.completed_ns) for row in rows if row.status == 0 and row.completed_ns is not None]
    if any(state is None or ruling.epoch is None or state["leader_epoch"] != ruling.epoch for state in states):
        return ()
    return max((tuple(state["isr"] or ()) for state in states if state is not None), key=len, default=())


def _cut(cut: Truncation) -> dict[str, Any]:
    return {
        "node": cut.node,
        "t_ns": cut.time_ns,
        "leader_epoch": cut.epoch,
        "from_offset": cut.from_offset,
        "to_offset": cut.to_offset,
        "reason": cut.reason,
    }


def _range(rows: Sequence[Flagged]) -> dict[str, int] | None:
    known = [row.offset for row in rows if row.offset is not None]
    return {"first": min(known), "last": max(known)} if known else None


def cuts_of(history: PartitionHistory, ruling: Ruling, rows: Sequence[Flagged]) -> list[Truncation]:
    """The truncations that removed at least one of these offsets, from the deciding epoch on."""
    span = _range(rows)
    if span is None:
        return []
    since = ruling.cause_epoch
    return [
        cut
        for cut in history.truncations
        if cut.to_offset <= span["last"]
        and cut.from_offset > span["first"]
        and (since is None or cut.epoch is None or cut.epoch >= since)
    ]


def _span_of(ruling: Ruling, rows: Sequence[Flagged]) -> tuple[int, int] | None:
    """From the first acknowledgement to the deciding election, or to the last one where none decides."""
    times = [row.completed_ns for row in rows if row.completed_ns is not None]
    if ruling.election is None and not times:
        return None
    end = ruling.election.time_ns if ruling.election else max(times)
    return min([*times, end]), end


def ends_of(history: PartitionHistory, ruling: Ruling, rows: Sequence[Flagged]) -> list[NodeEndRow]:
    """The partition's nodes that were down by themselves meanwhile."""
    span = _span_of(ruling, rows)
    ends = history.ends_between(*span) if span is not None else []
    return [end for end in ends if end["node"] in history.replicas or end["node"] >= COORDINATION]


def faults_of(history: PartitionHistory, ruling: Ruling, rows: Sequence[Flagged]) -> list[FaultRow]:
    """The faults in force between the first acknowledgement and the deciding election (or any truncation)."""
    span = _span_of(ruling, rows)
    if span is None:
        return []
    begin, end = span
    lost = {loss.fault for loss in ruling.disk_losses}
    found = history.faults_between(begin, end)
    known = {row["fault"] for row in found}
    return found + [row for row in history.faults.numbered(lost) if row["fault"] not in known]


def cause_chain(
    history: PartitionHistory, ruling: Ruling, rows: Sequence[Flagged], cuts: Sequence[Truncation]
) -> list[ChainLink]:
    election = ruling.election
    # A disk may be lost to a fault whose begin was not seen: the loss is added below.
    links = [_end_link(end) for end in ends_of(history, ruling, rows)[-_FAULTS_MAX:]]
    links += [_fault_link(fault) for fault in begun(faults_of(history, ruling, rows))[-_FAULTS_MAX:]]
    links += _isr_links(history, ruling, election)
    acknowledged = [row for row in rows if row.status == 0 and row.completed_ns is not None]
    late = by_a_deposed_leader(ruling, acknowledged)
    too_late = {id(row) for row in late}
    early = [row for row in acknowledged if id(row) not in too_late]
    resumed = resume_link(history, ruling, late, decides=not early)
    links += [_acknowledged_link(history, ruling, group, deposed=group is late) for group in (early, late) if group]
    links += [resumed] if resumed is not None else []
    for loss in ruling.disk_losses:
        if all(link.event != "fault" or link.fault != loss.fault for link in links):
            sentence = disk_link_words(loss)
            links.append(
                ChainLink(t_ns=loss.time_ns, event="disk-loss", sentence=sentence, nodes=(loss.node,), fault=loss.fault)
            )
    if election is not None:
        links.append(_election_link(history, ruling, election, decides=resumed is None or not resumed.decisive))
    links += [_cut_link(cut) for cut in cuts[:3]]
    return sorted(links, key=lambda link: (link.t_ns, _BY_CAUSE.index(link.event)))[:_LINKS_MAX]


def _end_link(end: NodeEndRow) -> ChainLink:
    return ChainLink(
        t_ns=end["time_ns"],
        event="node-end",
        sentence=end_link_words(end),
        nodes=(end["node"],),
        t_end_ns=end["back_ns"],
    )


def _fault_link(fault: FaultRow) -> ChainLink:
    return ChainLink(
        t_ns=begin_of(fault),
        event="fault",
        sentence=fault_link_words(fault),
        nodes=tuple(fault["nodes"] or ()),
        fault=fault["fault"],
        t_end_ns=fault["end_ns"],
    )


def _isr_links(history: PartitionHistory, ruling: Ruling, election: Election | None) -> list[ChainLink]:
    """The last two ISR shrinks, since the record's epoch, before the deciding election."""
    if election is None:
        return []
    links = []
    for before, row in pairwise(history.states):
        was, now = set(before["isr"] or ()), set(row["isr"] or ())
        same_leader = row["leader"] == before["leader"]
        if (
            row["time_ns"] < election.time_ns
            and was - now
            and same_leader
            and row["leader_epoch"] >= (ruling.epoch or 0)
        ):
            links.append(_shrink_link(history, before, row))
    return links[-2:]


def _shrink_link(history: PartitionHistory, before: PartitionStateRow, row: PartitionStateRow) -> ChainLink:
    was, now = sorted(set(before["isr"] or ())), sorted(set(row["isr"] or ()))
    gone = set(was) - set(now)
    sentence = shrink_words(was, now)
    held = what_held(history, row, gone)
    if held is not None:
        sentence += held_words(*held, gone=sorted(gone), leader=row["leader"])
    return ChainLink(
        t_ns=row["time_ns"],
        event="isr-shrink",
        sentence=sentence,
        nodes=tuple(sorted(gone)),
        epoch_before=before["leader_epoch"],
        epoch_after=row["leader_epoch"],
        isr_before=tuple(was),
        isr_after=tuple(now),
        leader=row["leader"],
        held_by=held[0] if held else None,
        held_s=round(held[1], 3) if held else None,
    )


def what_held(history: PartitionHistory, row: PartitionStateRow, gone: set[int]) -> tuple[Hold, float] | None:
    """What kept every removed replica from the leader, and for how many seconds: a cut, or a fault of each of them."""
    held: dict[Hold, tuple[frozenset[int], float]] = {}
    for fault in reversed(history.faults_between(row["time_ns"], row["time_ns"])):
        seconds = (row["time_ns"] - begin_of(fault)) / 1e9
        from_leader = {link.source for link in struck_links(fault) if link.target == row["leader"]}
        if fault["kind"] == "cut" and gone <= from_leader:
            return "cut", seconds
        state = _HOLDS.get(fault["kind"])
        struck = gone & set(fault["nodes"] or ())
        if state is not None and struck:
            already, since = held.get(state, (frozenset(), seconds))
            held[state] = already | struck, since
            if gone <= held[state][0]:
                return state, since
    ended = [end for end in history.ends_between(row["time_ns"], row["time_ns"]) if end["node"] in gone]
    if gone <= {end["node"] for end in ended}:
        return "dead", (row["time_ns"] - max(end["time_ns"] for end in ended)) / 1e9
    return None


def _acknowledged_link(
    history: PartitionHistory, ruling: Ruling, rows: Sequence[Flagged], *, deposed: bool
) -> ChainLink:
    times = [row.completed_ns for row in rows if row.completed_ns is not None]
    span = _range(rows)
    in_sync = in_sync_at_acknowledgement(history, ruling, rows)
    alone = f"; the ISR was {list(in_sync)}" if in_sync else ""
    sentence = (
        f"{plural(len(rows), 'record')} {plural(len(rows), 'was')} acknowledged with {acks_words(rows)} "
        f"{epochs_words([ruling.epoch])} {offsets_words(rows)}{alone}{DEPOSED_WORDS if deposed else ''}."
    )
    return ChainLink(
        t_ns=min(times),
        event="acknowledged",
        sentence=sentence,
        t_end_ns=max(times),
        epoch_before=ruling.epoch,
        epoch_after=ruling.epoch,
        offset_before=span["first"] if span else None,
        offset_after=span["last"] if span else None,
        count=len(rows),
        in_sync=in_sync,
        deposed=deposed,
        leader=history.leader_of(ruling.epoch),
        acks=tuple(sorted({row.acks if row.acks is not None else -1 for row in rows})),
    )


def _election_link(history: PartitionHistory, ruling: Ruling, election: Election, *, decides: bool) -> ChainLink:
    held = [
        row["log_end_offset"]
        for row in history.snapshots
        if row["node"] == election.leader_before and row["time_ns"] <= election.time_ns
    ]
    return ChainLink(
        t_ns=election.time_ns,
        event="election",
        sentence=election_link_words(history, election),
        decisive=decides,
        epoch_before=ruling.epoch,
        epoch_after=election.epoch,
        offset_before=held[-1] if held else None,
        offset_after=election.start,
        nodes=(election.leader,),
        unclean=election.unclean,
    )


def _cut_link(cut: Truncation) -> ChainLink:
    return ChainLink(
        t_ns=cut.time_ns,
        event="truncation",
        sentence=cut_link_words(cut),
        epoch_after=cut.epoch,
        offset_before=cut.from_offset,
        offset_after=cut.to_offset,
        nodes=(cut.node,),
        reason_text=cut.reason or None,
    )


def log_ends(history: PartitionHistory, ruling: Ruling, cuts: Sequence[Truncation]) -> list[dict[str, Any]]:
    """Each replica's log end at the deciding moment, if recorded, and where it was read."""
    election = ruling.election
    if election is None:
        return []
    ends = []
    for node in history.replicas:
        end: int | None = None
        source = NOWHERE
        if node == election.leader and election.start is not None:
            end, source = election.start, election.start_from
        else:
            cut = next((cut for cut in cuts if cut.node == node), None)
            before = [
                row
                for row in history.snapshots
                if row["node"] == node and row["time_ns"] <= election.time_ns and row["reason"] != "truncation"
            ]
            if cut is not None:
                end, source = cut.from_offset, Reading(source="truncation", node=node)
            elif before:
                end, source = (
                    before[-1]["log_end_offset"],
                    Reading(source="snapshot", node=node, reason=before[-1]["reason"]),
                )
        state = "elected" if node == election.leader else ("leader before" if node == election.leader_before else "")
        ends.append(
            {
                "replica": node,
                "log_end_offset": end,
                "state": state,
                "in_isr": node in election.isr_before,
                "source": reading_words(source),
            }
        )
    return ends


# ---- what would have prevented it: derived from the rule that decided, not tested -----------------------------------


def prevention(ruling: Ruling, lost: LostRecord, *, in_sync: Sequence[int] = (), replicas: int = 0) -> list[Remedy]:
    """What would have prevented the loss, derived from the rule that decided; not tested.

    in_sync: the largest ISR in force when one of the records was acknowledged; replicas: how many there are.
    """
    if ruling.classification == "violation":
        return []
    if ruling.cause == "unclean-election" and ruling.election is not None:
        # Waiting for replicas whose disks were lost would not help.
        kept = Remedy(code="no-unclean-election", key=UNCLEAN_KEY, value="false", nodes=ruling.election.eligible)
        ways = [Remedy(code="another-disk") if ruling.destroyed else kept]
        if lost.acks not in (0, 1) and 0 < len(in_sync) < replicas:
            value = str(len(in_sync) + 1)
            ways.append(Remedy(code="more-in-sync", key="min.insync.replicas", value=value, in_sync=tuple(in_sync)))
        return ways
    if ruling.cause == "fail-over":
        return [Remedy(code="acks-of-all", key="acks", value="all")]
    return [Remedy(code="another-disk")] if ruling.cause == "destruction" else []


# ---- acknowledged by a leader that was already deposed, and the end of its pause ------------------------------------


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
                t_ns=began,
                t_end_ns=end,
                event="resume",
                decisive=decides,
                nodes=(leader,),
                fault=fault["fault"],
                held_by="paused",
                held_s=round(paused_s, 3),
                leader=ruling.election.leader,
                epoch_before=ruling.epoch,
                epoch_after=ruling.election.epoch,
                sentence=resume_link_words(leader, paused_s, ruling.election),
            )
    return None
