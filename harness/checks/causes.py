"""The chain of causes behind a loss, in order of time, each with its evidence; what nobody recorded is left out."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from harness.checks.contract import Ruling, rules_as_json
from harness.checks.detection import Flagged
from harness.checks.elections import Election
from harness.checks.findings import acks_words, epochs_words, fate_of, nodes_words, offsets_words, plural
from harness.checks.prevention import prevention
from harness.checks.story import PartitionStory, Truncation
from harness.checks.tables import Row

_LINKS_MAX = 12
_FAULTS_MAX = 4


def loss_evidence(story: PartitionStory, ruling: Ruling, rows: Sequence[Flagged]) -> dict[str, Any]:
    """What the page needs to explain these rows: rules, chain, truncation, log ends, prevention; bounded."""
    election = ruling.election
    cuts = cuts_of(story, ruling, rows)
    in_sync = in_sync_at_acknowledgement(story, ruling, rows)
    return {
        "rules": rules_as_json(ruling),
        "cause": ruling.cause,
        "by_time": ruling.by_time,
        "cause_chain": cause_chain(story, ruling, rows, cuts),
        "elected": election.leader if election else None,
        "elected_epoch": election.epoch if election else None,
        "elected_log_end": election.start if election else None,
        "elected_log_end_from": election.start_from if election else None,
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
        "prevention": prevention(ruling, fate_of(story, rows[0]), in_sync=in_sync, replicas=len(story.replicas))
        if rows
        else [],
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
) -> list[dict[str, Any]]:
    election = ruling.election
    links = [_fault_link(fault) for fault in faults_of(story, ruling, rows)[-_FAULTS_MAX:]]
    links += _isr_links(story, ruling, election)
    acknowledged = [row for row in rows if row.status == 0 and row.t1 is not None]
    if acknowledged:
        links.append(_acknowledged_link(story, ruling, acknowledged))
    for loss in ruling.disk_losses:
        if all(link["event"] != "fault" or link["fault"] != loss.fault for link in links):
            sentence = f"Broker {loss.node} lost what its disk held: {loss.evidence}."
            links.append(_link(loss.t, "disk-loss", sentence, nodes=[loss.node], fault=loss.fault))
    if election is not None:
        links.append(_election_link(story, ruling, election))
    links += [_cut_link(cut) for cut in cuts[:3]]
    return sorted(links, key=lambda link: link["t_ns"])[:_LINKS_MAX]


def _link(t: int, event: str, sentence: str, **more: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "decisive": False, "epoch_before": None, "epoch_after": None, "offset_before": None, "offset_after": None,
        "nodes": [], "fault": None,
    }  # fmt: skip
    return {"t_ns": t, "event": event, "sentence": sentence, **empty, **more}


def fault_words(fault: Row) -> str:
    nodes = list(fault["nodes"] or ())
    label = fault["label"] or fault["kind"]
    return label if any(str(node) in label for node in nodes) or not nodes else f"{label} ({nodes_words(nodes)})"


def _fault_link(fault: Row) -> dict[str, Any]:
    proof = f" Seen: {fault['proof']}" if fault["proof"] else ""
    sentence = f"Fault {fault['fault']} began: {fault_words(fault)}.{proof}"
    return _link(
        fault["t_begin"], "fault", sentence, nodes=list(fault["nodes"] or ()), fault=fault["fault"],
        t_end_ns=fault["t_end"],
    )  # fmt: skip


def _isr_links(story: PartitionStory, ruling: Ruling, election: Election | None) -> list[dict[str, Any]]:
    """The last two ISR shrinks, from the record's epoch on, that led to the ISR the deciding election found."""
    if election is None:
        return []
    links = []
    for before, row in pairwise(story.states):
        was, now = set(before["isr"] or ()), set(row["isr"] or ())
        same_leader = row["leader"] == before["leader"]
        if row["t"] < election.t and was - now and same_leader and row["leader_epoch"] >= (ruling.epoch or 0):
            gone = nodes_words(sorted(was - now))
            sentence = f"The ISR shrank from {sorted(was)} to {sorted(now)}: {gone} no longer had to confirm a write."
            sentence += shrink_reason(story, row, was - now)
            links.append(
                _link(row["t"], "isr-shrink", sentence, nodes=sorted(was - now), epoch_before=before["leader_epoch"],
                      epoch_after=row["leader_epoch"])
            )  # fmt: skip
    return links[-2:]


def shrink_reason(story: PartitionStory, row: Row, gone: set[int]) -> str:
    """The fault in force that kept every one who left from the leader, in a sentence; "" when none did."""
    for fault in reversed(story.faults_between(row["t"], row["t"])):
        seconds = (row["t"] - fault["t_begin"]) / 1e9
        links = set((fault["links"] or "").split())
        if fault["kind"] == "cut" and {f"n{node}>n{row['leader']}" for node in gone} <= links:
            return f" The cut had held their fetches from broker {row['leader']} for {seconds:.1f} s."
        state = {"pause": "paused", "kill": "dead", "stop": "down", "wipe": "down", "damage": "down"}.get(fault["kind"])
        if state is not None and gone <= set(fault["nodes"] or ()):
            return f" {nodes_words(sorted(gone)).capitalize()} had been {state} for {seconds:.1f} s."
    return ""


def _acknowledged_link(story: PartitionStory, ruling: Ruling, rows: Sequence[Flagged]) -> dict[str, Any]:
    times = [row.t1 for row in rows if row.t1 is not None]
    span = _range(rows)
    in_sync = in_sync_at_acknowledgement(story, ruling, rows)
    alone = f"; the ISR was {list(in_sync)}" if in_sync else ""
    sentence = (
        f"{plural(len(rows), 'record')} {plural(len(rows), 'was')} acknowledged with {acks_words(rows)} "
        f"{epochs_words([ruling.epoch])} {offsets_words(rows)}{alone}."
    )
    return _link(
        min(times), "acknowledged", sentence, t_end_ns=max(times), epoch_before=ruling.epoch,
        epoch_after=ruling.epoch, offset_before=span["first"] if span else None,
        offset_after=span["last"] if span else None,
    )  # fmt: skip


def _election_link(story: PartitionStory, ruling: Ruling, election: Election) -> dict[str, Any]:
    how = "uncleanly" if election.unclean else "cleanly"
    log_end = "an unknown log end" if election.start is None else f"log end {election.start}"
    before = nodes_words(election.isr_before)
    if election.elr_before:
        before += f" and the eligible leader replicas were {nodes_words(election.elr_before)}"
    sentence = (
        f"Broker {election.leader} was elected {how} leader of {story.name} in epoch {election.epoch} with {log_end}; "
        f"the ISR before was {before}."
    )
    held = [
        row["log_end"] for row in story.snapshots if row["node"] == election.leader_before and row["t"] <= election.t
    ]
    return _link(
        election.t, "election", sentence, decisive=True, epoch_before=ruling.epoch, epoch_after=election.epoch,
        offset_before=held[-1] if held else None, offset_after=election.start, nodes=[election.leader],
    )  # fmt: skip


def _cut_link(cut: Truncation) -> dict[str, Any]:
    why = f" ({cut.reason})" if cut.reason else ""
    sentence = (
        f"Broker {cut.node} truncated its log from {cut.from_offset} to {cut.to_offset}"
        f"{'' if cut.epoch is None else f', following epoch {cut.epoch}'}{why}."
    )
    return _link(
        cut.t, "truncation", sentence, epoch_after=cut.epoch, offset_before=cut.from_offset,
        offset_after=cut.to_offset, nodes=[cut.node],
    )  # fmt: skip


def log_ends(story: PartitionStory, ruling: Ruling, cuts: Sequence[Truncation]) -> list[dict[str, Any]]:
    """Each replica's log end at the deciding moment, as far as anything recorded it, and where that was read."""
    election = ruling.election
    if election is None:
        return []
    ends = []
    for node in story.replicas:
        end: int | None = None
        source = "not recorded"
        if node == election.leader and election.start is not None:
            end, source = election.start, election.start_from
        else:
            cut = next((cut for cut in cuts if cut.node == node), None)
            before = [row for row in story.snapshots if row["node"] == node and row["t"] <= election.t
                      and row["reason"] != "truncation"]  # fmt: skip
            if cut is not None:
                end, source = cut.from_offset, "its truncation afterwards"
            elif before:
                end, source = before[-1]["log_end"], f"{before[-1]['reason']} snapshot"
        state = "elected" if node == election.leader else ("leader before" if node == election.leader_before else "")
        ends.append(
            {"replica": node, "log_end": end, "state": state, "in_isr": node in election.isr_before, "source": source}
        )
    return ends
