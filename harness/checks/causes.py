"""The chain of causes behind a loss, in order of time, each with its evidence; what nobody recorded is left out."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from harness.checks.detection import Flagged
from harness.checks.elections import NOWHERE, Election, Reading
from harness.checks.findings import fate_of
from harness.checks.prevention import prevention
from harness.checks.rulings import Ruling
from harness.checks.story import PartitionStory, Truncation
from harness.checks.tables import Row
from harness.checks.wording.chain import (
    cut_link_words,
    disk_link_words,
    election_link_words,
    fault_link_words,
    held_words,
    remedy_words,
    shrink_words,
)
from harness.checks.wording.rulings import reading_words, rules_as_json
from harness.checks.wording.words import acks_words, epochs_words, offsets_words, plural
from harness.history.finding_facts import ChainLink, Hold

_LINKS_MAX = 12
_FAULTS_MAX = 4
_HOLDS: Mapping[str, Hold] = {"pause": "paused", "kill": "dead", "stop": "down", "wipe": "down", "damage": "down"}


def loss_evidence(story: PartitionStory, ruling: Ruling, rows: Sequence[Flagged]) -> dict[str, Any]:
    """What the page needs to explain these rows: rules, chain, truncation, log ends, prevention; bounded."""
    election = ruling.election
    cuts = cuts_of(story, ruling, rows)
    in_sync = in_sync_at_acknowledgement(story, ruling, rows)
    remedies = (
        prevention(ruling, fate_of(story, rows[0]), in_sync=in_sync, replicas=len(story.replicas)) if rows else []
    )
    return {
        "rules": rules_as_json(ruling),
        "cause": ruling.cause,
        "by_time": ruling.by_time,
        "cause_chain": [link.as_dict() for link in cause_chain(story, ruling, rows, cuts)],
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
            {"node": loss.node, "t_ns": loss.t, "fault": loss.fault, "evidence": loss.evidence}
            for loss in ruling.disk_losses
        ],
        "log_ends": log_ends(story, ruling, cuts),
        "lost_range": _range(rows),
        "isr_at_acknowledgement": list(in_sync),
        "remedies": [remedy.as_dict() for remedy in remedies],
        "prevention": [remedy_words(remedy) for remedy in remedies],
    }


def in_sync_at_acknowledgement(story: PartitionStory, ruling: Ruling, rows: Sequence[Flagged]) -> tuple[int, ...]:
    """The largest ISR in force when one of these rows was acknowledged; () when it is not known of each of them.

    A leader that was deposed and does not know it acknowledges by an ISR that the cluster has left behind.
    """
    states = [story.state_at(row.t1) for row in rows if row.status == 0 and row.t1 is not None]
    if any(state is None or ruling.epoch is None or state["leader_epoch"] != ruling.epoch for state in states):
        return ()
    return max((tuple(state["isr"] or ()) for state in states if state is not None), key=len, default=())


def _cut(cut: Truncation) -> dict[str, Any]:
    return {
        "node": cut.node, "t_ns": cut.t, "epoch": cut.epoch, "from_offset": cut.from_offset,
        "to_offset": cut.to_offset, "reason": cut.reason,
    }  # fmt: skip


def _range(rows: Sequence[Flagged]) -> dict[str, int] | None:
    known = [row.off for row in rows if row.off is not None]
    return {"first": min(known), "last": max(known)} if known else None


def cuts_of(story: PartitionStory, ruling: Ruling, rows: Sequence[Flagged]) -> list[Truncation]:
    """The truncations that removed at least one of these offsets, from the deciding epoch on."""
    span = _range(rows)
    if span is None:
        return []
    since = ruling.cause_epoch
    return [
        cut
        for cut in story.truncations
        if cut.to_offset <= span["last"]
        and cut.from_offset > span["first"]
        and (since is None or cut.epoch is None or cut.epoch >= since)
    ]


def faults_of(story: PartitionStory, ruling: Ruling, rows: Sequence[Flagged]) -> list[Row]:
    """Faults in force between the first acknowledgement and the deciding election (or any truncation)."""
    times = [row.t1 for row in rows if row.t1 is not None]
    if ruling.election is None and not times:
        return []
    end = ruling.election.t if ruling.election else max(times)
    begin = min([*times, end])
    lost = {loss.fault for loss in ruling.disk_losses}
    found = story.faults_between(begin, end)
    known = {row["fault"] for row in found}
    return found + [row for row in story.faults.numbered(lost) if row["fault"] not in known]


def cause_chain(
    story: PartitionStory, ruling: Ruling, rows: Sequence[Flagged], cuts: Sequence[Truncation]
) -> list[ChainLink]:
    election = ruling.election
    links = [_fault_link(fault) for fault in faults_of(story, ruling, rows)[-_FAULTS_MAX:]]
    links += _isr_links(story, ruling, election)
    acknowledged = [row for row in rows if row.status == 0 and row.t1 is not None]
    if acknowledged:
        links.append(_acknowledged_link(story, ruling, acknowledged))
    for loss in ruling.disk_losses:
        if all(link.event != "fault" or link.fault != loss.fault for link in links):
            sentence = disk_link_words(loss)
            links.append(
                ChainLink(t_ns=loss.t, event="disk-loss", sentence=sentence, nodes=(loss.node,), fault=loss.fault)
            )
    if election is not None:
        links.append(_election_link(story, ruling, election))
    links += [_cut_link(cut) for cut in cuts[:3]]
    return sorted(links, key=lambda link: link.t_ns)[:_LINKS_MAX]


def _fault_link(fault: Row) -> ChainLink:
    return ChainLink(
        t_ns=fault["t_begin"], event="fault", sentence=fault_link_words(fault), nodes=tuple(fault["nodes"] or ()),
        fault=fault["fault"], t_end_ns=fault["t_end"],
    )  # fmt: skip


def _isr_links(story: PartitionStory, ruling: Ruling, election: Election | None) -> list[ChainLink]:
    """The last two ISR shrinks, from the record's epoch on, that led to the ISR the deciding election found."""
    if election is None:
        return []
    links = []
    for before, row in pairwise(story.states):
        was, now = set(before["isr"] or ()), set(row["isr"] or ())
        same_leader = row["leader"] == before["leader"]
        if row["t"] < election.t and was - now and same_leader and row["leader_epoch"] >= (ruling.epoch or 0):
            links.append(_shrink_link(story, before, row))
    return links[-2:]


def _shrink_link(story: PartitionStory, before: Row, row: Row) -> ChainLink:
    was, now = sorted(set(before["isr"] or ())), sorted(set(row["isr"] or ()))
    gone = set(was) - set(now)
    sentence = shrink_words(was, now)
    held = what_held(story, row, gone)
    if held is not None:
        sentence += held_words(*held, gone=sorted(gone), leader=row["leader"])
    return ChainLink(
        t_ns=row["t"], event="isr-shrink", sentence=sentence, nodes=tuple(sorted(gone)),
        epoch_before=before["leader_epoch"], epoch_after=row["leader_epoch"], isr_before=tuple(was),
        isr_after=tuple(now), leader=row["leader"], held_by=held[0] if held else None,
        held_s=round(held[1], 3) if held else None,
    )  # fmt: skip


def what_held(story: PartitionStory, row: Row, gone: set[int]) -> tuple[Hold, float] | None:
    """The fault in force that kept every one who left from the leader, and for how many seconds by then."""
    for fault in reversed(story.faults_between(row["t"], row["t"])):
        seconds = (row["t"] - fault["t_begin"]) / 1e9
        links = set((fault["links"] or "").split())
        if fault["kind"] == "cut" and {f"n{node}>n{row['leader']}" for node in gone} <= links:
            return "cut", seconds
        state = _HOLDS.get(fault["kind"])
        if state is not None and gone <= set(fault["nodes"] or ()):
            return state, seconds
    return None


def _acknowledged_link(story: PartitionStory, ruling: Ruling, rows: Sequence[Flagged]) -> ChainLink:
    times = [row.t1 for row in rows if row.t1 is not None]
    span = _range(rows)
    in_sync = in_sync_at_acknowledgement(story, ruling, rows)
    alone = f"; the ISR was {list(in_sync)}" if in_sync else ""
    sentence = (
        f"{plural(len(rows), 'record')} {plural(len(rows), 'was')} acknowledged with {acks_words(rows)} "
        f"{epochs_words([ruling.epoch])} {offsets_words(rows)}{alone}."
    )
    return ChainLink(
        t_ns=min(times), event="acknowledged", sentence=sentence, t_end_ns=max(times), epoch_before=ruling.epoch,
        epoch_after=ruling.epoch, offset_before=span["first"] if span else None,
        offset_after=span["last"] if span else None, count=len(rows), in_sync=in_sync,
        acks=tuple(sorted({row.acks if row.acks is not None else -1 for row in rows})),
    )  # fmt: skip


def _election_link(story: PartitionStory, ruling: Ruling, election: Election) -> ChainLink:
    held = [
        row["log_end"] for row in story.snapshots if row["node"] == election.leader_before and row["t"] <= election.t
    ]
    return ChainLink(
        t_ns=election.t, event="election", sentence=election_link_words(story, election), decisive=True,
        epoch_before=ruling.epoch, epoch_after=election.epoch, offset_before=held[-1] if held else None,
        offset_after=election.start, nodes=(election.leader,), unclean=election.unclean,
    )  # fmt: skip


def _cut_link(cut: Truncation) -> ChainLink:
    return ChainLink(
        t_ns=cut.t, event="truncation", sentence=cut_link_words(cut), epoch_after=cut.epoch,
        offset_before=cut.from_offset, offset_after=cut.to_offset, nodes=(cut.node,), reason_text=cut.reason or None,
    )  # fmt: skip


def log_ends(story: PartitionStory, ruling: Ruling, cuts: Sequence[Truncation]) -> list[dict[str, Any]]:
    """Each replica's log end at the deciding moment, as far as anything recorded it, and where that was read."""
    election = ruling.election
    if election is None:
        return []
    ends = []
    for node in story.replicas:
        end: int | None = None
        source = NOWHERE
        if node == election.leader and election.start is not None:
            end, source = election.start, election.start_from
        else:
            cut = next((cut for cut in cuts if cut.node == node), None)
            before = [row for row in story.snapshots if row["node"] == node and row["t"] <= election.t
                      and row["reason"] != "truncation"]  # fmt: skip
            if cut is not None:
                end, source = cut.from_offset, Reading(source="truncation", node=node)
            elif before:
                end, source = before[-1]["log_end"], Reading(source="snapshot", node=node, reason=before[-1]["reason"])
        state = "elected" if node == election.leader else ("leader before" if node == election.leader_before else "")
        ends.append(
            {
                "replica": node,
                "log_end": end,
                "state": state,
                "in_isr": node in election.isr_before,
                "source": reading_words(source),
            }
        )
    return ends
