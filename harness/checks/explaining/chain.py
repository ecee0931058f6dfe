"""The links of a chain of causes and what would have kept a record, in words."""

from collections.abc import Mapping, Sequence

from harness.checks.model.elections import Election
from harness.checks.model.partition_history import DiskLoss, PartitionHistory, Truncation
from harness.checks.wording.rulings import log_end_words
from harness.checks.wording.words import nodes_words
from harness.history.facts.finding_facts import Hold, Remedy
from harness.history.facts.node_end_facts import how_words
from harness.history.schema.cluster_rows import FaultRow, NodeEndRow

# What strikes nodes as a whole: kind and victims say it all. Of the others the plan's own words say more.
_STRIKES: Mapping[str, str] = {
    "kill": "kill",
    "crash": "crash",
    "stop": "stop",
    "pause": "pause",
    "wipe": "wipe",
    "disk-loss": "disk-loss",
    "power-loss": "loss of unflushed records of",
    "full": "full disk of",
}


DEPOSED_WORDS = ", by a leader that had been deposed already"


def fault_words(fault: FaultRow, noun: str = "broker") -> str:
    """noun: what the run's nodes are (RunHistory.node_noun)."""
    nodes = list(fault["nodes"] or ())
    struck = _STRIKES.get(fault["kind"])
    if struck is not None and nodes:
        return f"{struck} {nodes_words(nodes, noun)}"
    label = str(fault["label_text"] or fault["kind"])
    return f"{label} ({nodes_words(nodes, noun)})" if nodes and not fault["links"] else label


def fault_link_words(fault: FaultRow) -> str:
    proof = f" Seen: {fault['proof_text']}" if fault["proof_text"] else ""
    return f"Fault {fault['fault']} began: {fault_words(fault)}.{proof}"


def end_link_words(end: NodeEndRow) -> str:
    line = f" It logged last: {end['line_text']}" if end["line_text"] else ""
    return f"{nodes_words([end['node']]).capitalize()} ended {how_words(end)} while no fault had it down.{line}"


def disk_link_words(loss: DiskLoss) -> str:
    return f"Broker {loss.node} lost what its disk held: {loss.evidence}."


def shrink_words(was: Sequence[int], now: Sequence[int]) -> str:
    gone = nodes_words(sorted(set(was) - set(now)))
    return f"The ISR shrank from {list(was)} to {list(now)}: {gone} no longer had to confirm a write."


def held_words(held_by: Hold, seconds: float, gone: Sequence[int], leader: int) -> str:
    """What had kept every one who left from the leader."""
    if held_by == "cut":
        return f" The cut had held their fetches from broker {leader} for {seconds:.1f} s."
    return f" {nodes_words(sorted(gone)).capitalize()} had been {held_by} for {seconds:.1f} s."


def election_link_words(history: PartitionHistory, election: Election) -> str:
    how = "uncleanly" if election.unclean else "cleanly"
    before = nodes_words(election.isr_before)
    if election.elr_before:
        before += f" and the eligible leader replicas were {nodes_words(election.elr_before)}"
    return (
        f"Broker {election.leader} was elected {how} leader of {history.name} in epoch {election.epoch} with "
        f"{log_end_words(election)}; the ISR before was {before}."
    )


def resume_link_words(node: int, paused_s: float, election: Election) -> str:
    return (
        f"Broker {node} was resumed after a pause of {paused_s:.1f} s; it did not know yet that broker "
        f"{election.leader} led in epoch {election.epoch}."
    )


def cut_link_words(cut: Truncation) -> str:
    why = f" ({cut.reason})" if cut.reason else ""
    following = "" if cut.epoch is None else f", following epoch {cut.epoch}"
    return f"Broker {cut.node} truncated its log from {cut.from_offset} to {cut.to_offset}{following}{why}."


def remedy_words(remedy: Remedy) -> str:
    if remedy.code == "no-unclean-election":
        back = " or ".join(f"broker {node}" for node in remedy.nodes) or "an in-sync replica"
        return (
            f"With {remedy.key}={remedy.value} the partition would have stayed without a leader until {back} "
            "came back, and nothing acknowledged with acks=all would have been lost."
        )
    if remedy.code == "more-in-sync":
        return (
            f"With {remedy.key}={remedy.value} none of these records would have been acknowledged: "
            f"the ISR was {list(remedy.in_sync)}, and acks=all then needs {remedy.value} members."
        )
    if remedy.code == "acks-of-all":
        return (
            f"With {remedy.key}={remedy.value} the leader would have acknowledged these records only after every "
            "in-sync replica had them; the new leader would have had them too."
        )
    return (
        "A further in-sync replica on another disk would have kept them: min.insync.replicas above the number of "
        "disks lost at once refuses writes that fewer copies would hold."
    )
