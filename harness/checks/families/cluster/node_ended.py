"""node-ended: a node that ended while no fault had it down, and what that says of the system.

A violation only if its process ended without a signal, on a cluster that was started for the run, before anything had
touched the node, its disk, its links or the nodes that decide over the metadata, and not for want of what the machine
had to give. Permitted if a fault explains what it logged last. Otherwise it is open, and so is a signal: the harness
did not send it, and who did is not known. An error of the reference cluster is an error of ours.
"""

from collections.abc import Callable, Mapping, Sequence, Set

from harness.checks.contract.rulings import Cause, CauseCode, Class
from harness.checks.family import Family
from harness.checks.findings import REASONS_MAX, Finding, RunContext
from harness.checks.model.partition_history import RunHistory
from harness.checks.wording.ends import all_ended_words, end_sentence, ended_words
from harness.history.facts.fault_facts import struck_links
from harness.history.facts.node_end_facts import signal_of
from harness.history.facts.releases import FOLLOWERS_NEVER_HALT
from harness.history.schema.cluster_rows import CONTROLLERS, EndReason, FaultRow, NodeEndRow
from harness.ports.cluster import COORDINATION

CHECK = "node-ended"
_TAKES_RECORDS = ("wipe", "disk-loss", "power-loss", "damage")
# What a machine gives or refuses: no promise of Kafka's is about it, nor about how soon a busy machine registers.
_OF_THE_MACHINE: Set[EndReason | None] = frozenset(
    {None, "disk-full", "log-directory-failed", "out-of-resources", "registration-failed"}
)
_STATUS_OF_AN_ORDERLY_END = 0  # which a node that was told to stop has as well
_Ruled = tuple[Class, CauseCode, Sequence[FaultRow]]


def find(context: RunContext) -> list[Finding]:
    return [_finding(context, end) for end in context.history.ends]


def errors(history: RunHistory) -> list[str]:
    """One line for each end of a reference node that is an error of ours: the run could not be done."""
    return [
        f"{ended_words(history, end)}: an error of the reference cluster, which is a bug of kafka-chaos"
        for end in history.ends
        if _is_our_error(history, end)
    ]


def summary(history: RunHistory, findings: Sequence[Finding], *, are_told: bool) -> str:
    """All of them in a sentence; "" where there are none, or the verdict's first reasons tell each of them.

    are_told: the verdict is stated with the open ones.
    """
    own = [finding for finding in findings if finding.check == CHECK]
    if are_told and len(own) <= REASONS_MAX and all(finding.is_open for finding in own):
        return ""
    explaining = [fault for each in own if each.classification == "permitted" for fault in each.faults]
    return all_ended_words(history, history.faults.numbered(explaining))


def _finding(context: RunContext, end: NodeEndRow) -> Finding:
    history = context.history
    classification, code, faults = _ruled(context, end)
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind=_kind(end),
        count=1,
        sentence=end_sentence(history, end, code, faults),
        cause=Cause(code=code, nodes=(end["node"],)),
        open_question=code in ("ended-by-a-signal", "ended-in-doubt"),
        first_ns=end["time_ns"],
        last_ns=end["time_ns"] if end["back_ns"] is None else end["back_ns"],
        faults=[row["fault"] for row in faults],
        evidence={
            "node": end["node"],
            "exit_status": end["exit_status"],
            "signal": signal_of(end),
            "reason": end["reason"],
            "line_text": end["line_text"],
            "back_ns": end["back_ns"],
        },
    )


def _kind(end: NodeEndRow) -> str:
    return "signal" if signal_of(end) is not None else end["reason"] or "unknown"


def _ruled(context: RunContext, end: NodeEndRow) -> _Ruled:
    history = context.history
    if signal_of(end) is not None:
        return "observation", "ended-by-a-signal", ()
    deciding = _deciding(context, end)
    is_refused_no_more = end["reason"] == "truncation-refused" and history.settings.release >= FOLLOWERS_NEVER_HALT
    before = [] if is_refused_no_more else _before(history, end)
    explaining = [row for row in before if _explains(row, end, deciding)]
    if explaining:
        return "permitted", "ended-by-a-fault", explaining
    if _is_our_error(history, end):
        return "observation", "ended-by-an-error-of-ours", ()
    touching = [row for row in _before(history, end) if _touches(row, {end["node"], *deciding})]
    if not touching and _is_its_own(history, end):
        return "violation", "ended-untouched", ()
    return "observation", "ended-in-doubt", touching


def _is_our_error(history: RunHistory, end: NodeEndRow) -> bool:
    scenario = history.scenario
    is_reference = scenario is not None and scenario.cluster.system == "reference"
    failed = end["exit_status"] not in (None, _STATUS_OF_AN_ORDERLY_END) and signal_of(end) is None
    return is_reference and failed and end["reason"] in ("exception", "none")


def _is_its_own(history: RunHistory, end: NodeEndRow) -> bool:
    """Whether nobody else can have ended it: neither somebody who told it to stop, nor the machine."""
    scenario = history.scenario
    if scenario is None or scenario.cluster.is_foreign or not end["fresh"] or end["exit_status"] is None:
        return False
    is_orderly = end["exit_status"] == _STATUS_OF_AN_ORDERLY_END and end["reason"] == "none"
    return not is_orderly and end["reason"] not in _OF_THE_MACHINE


# -- what faults had done by then ----------------------------------------------------------------------------------


def _before(history: RunHistory, end: NodeEndRow) -> list[FaultRow]:
    """The faults that had been begun by then; one whose effect was not seen may have had one."""
    times = ((row, row["begin_ns"] if row["asked_ns"] is None else row["asked_ns"]) for row in history.faults)
    return [row for row, asked_ns in times if asked_ns is None or asked_ns <= end["time_ns"]]


def _deciding(context: RunContext, end: NodeEndRow) -> Set[int]:
    """The nodes that had decided over the metadata: coordination services, controllers, and brokers that were so."""
    history = context.history
    scenario = history.scenario
    apart = {node for row in history.faults for node in row["nodes"] if node >= COORDINATION}
    links = [link for row in history.faults for link in struck_links(row)]
    apart |= {
        node for link in links for node in (link.source, link.target) if node is not None and node >= COORDINATION
    }
    named = {row["node"] for row in context.tables[CONTROLLERS] if row["time_ns"] <= end["time_ns"]}
    combined = scenario is None or scenario.cluster.layout == "kraft-combined"
    return apart | named | ({int(broker) for broker in scenario.cluster.brokers} if combined and scenario else set())


def _touches(fault: FaultRow, nodes: Set[int]) -> bool:
    """Whether it struck one of these nodes or a link of one; of links that are not known, any may have been struck."""
    if fault["links"] is None:
        return True
    return not nodes.isdisjoint(fault["nodes"]) or any(
        link.touches(node) for link in struck_links(fault) for node in nodes
    )


def _explains(fault: FaultRow, end: NodeEndRow, deciding: Set[int]) -> bool:
    reason = end["reason"]
    if reason is None or reason not in _EXPLAINED_BY or not fault["proved"]:
        return False
    return _EXPLAINED_BY[reason](fault, end["node"], deciding)  # perhaps before its effect was seen to be complete


def _of_its_disk(*kinds: str) -> Callable[[FaultRow, int, Set[int]], bool]:
    return lambda fault, node, deciding: fault["kind"] in kinds and node in fault["nodes"]


def _of_deciding_disks(fault: FaultRow, node: int, deciding: Set[int]) -> bool:
    return fault["kind"] in _TAKES_RECORDS and not deciding.isdisjoint(fault["nodes"])


def _of_other_disks(fault: FaultRow, node: int, deciding: Set[int]) -> bool:
    return fault["kind"] in _TAKES_RECORDS and any(other != node for other in fault["nodes"])


def _of_the_way_to_deciding(fault: FaultRow, node: int, deciding: Set[int]) -> bool:
    return _touches(fault, {node, *deciding})


# By reason: which fault leaves a node no other way, given the node and those that decide over the metadata.
_EXPLAINED_BY: Mapping[EndReason, Callable[[FaultRow, int, Set[int]], bool]] = {
    "disk-full": _of_its_disk("full"),
    "log-directory-failed": _of_its_disk("full", "damage"),
    "metadata-truncation-refused": _of_deciding_disks,
    "truncation-refused": _of_other_disks,
    "other-cluster": _of_deciding_disks,
    "registration-failed": _of_the_way_to_deciding,
}


FAMILY = Family(name=CHECK, find=find)
