"""no-progress: who got nothing when asked after the last heal (old_clients.py, fresh_clients.py; the table progress).

That a partition which has a leader and enough in-sync replicas takes a write with acks=all is what replication is for
(design, Replication; KIP-966), so an error that its brokers answer to a fresh client for as long as recovery may take
is a violation: by the cluster's own books, all replicas in sync, every node running, no fault left, and no rule of the
topic or the cluster that refuses the record. Of one client that was there before Kafka promises less, a group waits
for members that it has not given up, and silence may be the machine's: what nothing explains of that is open. What is
explained is an observation, and the verdict's sentence says it too.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, Class, Doubt, DoubtCode, min_isr_setting
from harness.checks.explaining.answered_errors import Answered, answered, answered_words
from harness.checks.families.transactions import hanging_transaction
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.spark.tables import CRASHES
from harness.checks.wording.causes import cause_words
from harness.history.facts.error_codes import (
    INVALID_PRODUCER_EPOCH,
    OF_A_RULE,
    OF_THE_MOMENT,
    PRODUCER_FENCED,
    error_code,
)
from harness.history.facts.fault_facts import begun, end_of
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC
from harness.history.facts.node_end_facts import back_of
from harness.history.schema.client_rows import CLIENT_EVENTS, PROCESSES
from harness.history.schema.cluster_rows import PROGRESS, AskedFor, ProgressRow
from harness.ports.load import LoadFacts

CHECK = "no-progress"
_LACKING = ("refused", "unanswered")
_NAMED_MAX = 5
_FENCED = (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED)
_ALL = "all"
_BEFORE_NS = 10_000_000_000  # an attempt that is under way may have been answered before its client was asked
_Ruled = tuple[Class, Cause]
# A crashed member is given up after its session; was it in the generation that is formed meanwhile, after one more, and
# in a third the others join and are given their partitions.
_RESTS_AFTER_SESSIONS = 3
_WORDS: Mapping[AskedFor, str] = {
    "write": "{who} got no write acknowledged in {where}",
    "membership": "{who} {was} not given {where}",
    "read": "{who} got no record of {where}",
    "stable": "the last stable offset of {where} did not pass the record of {who}",
}


def find(context: RunContext) -> list[Finding]:
    partitions = {(each.topic, each.partition): each for each in context.history.partitions.values()}
    found: dict[tuple[str, str, _Ruled], list[ProgressRow]] = {}
    for row in context.tables[PROGRESS]:
        history = partitions.get((row["topic"], row["partition"]))
        if row["outcome"] in _LACKING and history is not None and history.deletion is None:
            found.setdefault((row["age"], row["what"], _ruled(context, history, row)), []).append(row)
    return [_finding(context, rows, ruled) for (_, _, ruled), rows in found.items()]


def summary(findings: Sequence[Finding]) -> str:
    """What an explained one says, for the verdict's sentence: the others are among its reasons."""
    sentences = [each.sentence for each in findings if each.check == CHECK and _is_explained(each)]
    return " ".join(sentences[:2])


def _is_explained(finding: Finding) -> bool:
    return finding.classification == "observation" and not finding.is_open


# -- why ------------------------------------------------------------------------------------------------------------


def _ruled(context: RunContext, history: PartitionHistory, row: ProgressRow) -> _Ruled:
    lawful = _lawful(context, history, row)
    if lawful is not None:
        return "observation", lawful
    if row["what"] == "stable":
        return _open("stable-offset-stands")
    if row["what"] != "write":
        return _open("may-wait-for-others" if row["age"] == "fresh" else "old-client-got-nothing")
    if row["age"] == "old":
        return _open("old-client-got-nothing")
    if row["code"] is None:
        return _open("nobody-answered")
    scenario = context.history.scenario
    if not history.exact or history.is_foreign or scenario is None or row["leader"] is None:
        return _open("polled-or-foreign")
    if set(row["isr"] or ()) != set(history.replicas):
        return _open("not-all-in-sync")
    if ended := _ended(context, row):
        return _open("another-node-had-ended", tuple(sorted(ended)))
    if row["until_ns"] - row["asked_ns"] < scenario.recovery_timeout_s * 1e9:
        return _open("asked-for-a-moment")
    return "violation", NOTHING_PERMITS_IT


def _open(code: DoubtCode, nodes: tuple[int, ...] = ()) -> _Ruled:
    return "observation", Cause(code="progress-in-doubt", doubt=Doubt(code=code, nodes=nodes))


def _lawful(context: RunContext, history: PartitionHistory, row: ProgressRow) -> Cause | None:
    """Each is tried in turn: the first that explains it is its cause."""
    return next((cause for explain in _EXPLANATIONS if (cause := explain(context, history, row)) is not None), None)


def _no_leader(context: RunContext, history: PartitionHistory, row: ProgressRow) -> Cause | None:
    if row["leader"] is not None and row["leader"] < 0:
        return Cause(code="led-by-nobody", partitions=(history.name,))
    coordinators = [each for (topic, _), each in context.history.internal.items() if topic == GROUP_OFFSETS_TOPIC]
    if row["group"] is None or len(coordinators) != 1:  # of several it is not known which one has the group
        return None
    last = coordinators[0].states[-1] if coordinators[0].states else None
    unled = last is not None and last["leader"] < 0
    return Cause(code="led-by-nobody", partitions=(coordinators[0].name,)) if unled else None


def _by_a_rule(context: RunContext, history: PartitionHistory, row: ProgressRow) -> Cause | None:
    return Cause(code="refused-by-a-rule") if row["code"] in OF_A_RULE else None


def _too_few(context: RunContext, history: PartitionHistory, row: ProgressRow) -> Cause | None:
    scenario = context.history.scenario
    acks = _ALL if row["age"] == "fresh" or scenario is None else scenario.workload.acks
    if row["what"] != "write" or row["isr"] is None or acks != _ALL:
        return None
    leader = None if row["leader"] is None or row["leader"] < 0 else row["leader"]
    in_force = context.history.settings.numbers(
        "min.insync.replicas", row["topic"], row["asked_ns"], row["until_ns"], leader
    )
    least = in_force[-1]
    return Cause(code="too-few-in-sync", settings=(min_isr_setting(least),)) if len(row["isr"]) < least else None


def _down(context: RunContext, history: PartitionHistory, row: ProgressRow) -> Cause | None:
    """A node that decides over it: the leader, and whoever a write waits for; any replica where nobody said who leads;
    of a group, any broker."""
    down = _ended(context, row)
    deciding = set(history.replicas) if row["leader"] is None else {row["leader"]}
    if row["what"] == "write":
        deciding |= set(row["isr"] or ())
    if row["group"] is None:
        down &= deciding
    return Cause(code="node-is-down", nodes=tuple(sorted(down))) if down else None


def _ended(context: RunContext, row: ProgressRow) -> set[int]:
    """The nodes that had ended by themselves and did not run again while it was asked."""
    return {end["node"] for end in context.history.ends if back_of(end) > row["until_ns"]}


def _not_over(context: RunContext, history: PartitionHistory, row: ProgressRow) -> Cause | None:
    left = [fault for fault in begun(context.history.faults) if end_of(fault) > row["asked_ns"]]
    return Cause(code="fault-not-over") if left else None


def _open_transaction(context: RunContext, history: PartitionHistory, row: ProgressRow) -> Cause | None:
    hanging = {(each.topic, each.partition) for each in context.found.get(hanging_transaction.CHECK, ())}
    if row["what"] not in ("stable", "read") or (row["topic"], row["partition"]) not in hanging:
        return None
    return Cause(code="transaction-open")


def _fenced(context: RunContext, history: PartitionHistory, row: ProgressRow) -> Cause | None:
    return Cause(code="fenced-by-a-newer") if row["age"] == "old" and row["code"] in _FENCED else None


def _explained(context: RunContext, history: PartitionHistory, row: ProgressRow) -> Cause | None:
    """All that brokers answered to this client's attempts there since its last acknowledged ones."""
    if row["age"] != "old" or row["what"] != "write":
        return None
    errors = _answered(context, history, row)
    return Cause(code="answer-explained") if errors and all(each.explanation is not None for each in errors) else None


def _held_by_its_library(context: RunContext, history: PartitionHistory, row: ProgressRow) -> Cause | None:
    """On a cluster of ours, where fresh clients get theirs and no broker refuses this one for longer than a moment."""
    if row["age"] != "old" or row["what"] != "write" or history.is_foreign or not _fresh_got(context, [row]):
        return None
    codes = {each.error.code for each in _answered(context, history, row)} | {row["code"]}
    return Cause(code="held-by-its-library") if codes <= OF_THE_MOMENT | {None} else None


def _members_kept_crashing(context: RunContext, history: PartitionHistory, row: ProgressRow) -> Cause | None:
    """Those of the load's group, by its own plan: there was no time in which it had to come to rest. Fresh members, of
    whom none crashes, get what these did not."""
    facts = None if context.history.scenario is None else context.history.scenario.workload.facts
    if row["age"] != "old" or facts is None or row["group"] != facts.group or not _fresh_got(context, [row]):
        return None
    members = {each["process"] for each in context.tables[PROCESSES] if each["group"] == row["group"]}
    crashes = sorted(each["invoked_ns"] for each in context.tables[CRASHES] if each["process"] in members)
    inside = [at_ns for at_ns in crashes if row["asked_ns"] < at_ns < row["until_ns"]]
    rest_ns = _RESTS_AFTER_SESSIONS * _session_timeout_ms(context, facts, row) * 1_000_000
    edges = [row["asked_ns"], *inside, row["until_ns"]]
    kept = bool(inside) and all(after - before < rest_ns for before, after in pairwise(edges))
    return Cause(code="members-kept-crashing") if kept else None


def _session_timeout_ms(context: RunContext, facts: LoadFacts, row: ProgressRow) -> int:
    """With KIP-848's protocol the brokers say it."""
    if facts.group_protocol == "classic":
        return facts.session_timeout_ms
    key = "group.consumer.session.timeout.ms"
    return context.history.settings.numbers(key, None, row["asked_ns"], row["until_ns"])[-1]


_EXPLANATIONS: Sequence[Callable[[RunContext, PartitionHistory, ProgressRow], Cause | None]] = (
    _no_leader,
    _by_a_rule,
    _too_few,
    _down,
    _not_over,
    _open_transaction,
    _fenced,
    _explained,
    _held_by_its_library,
    _members_kept_crashing,
)


def _answered(context: RunContext, history: PartitionHistory, row: ProgressRow) -> list[Answered]:
    """To the client's last process: one before it has ended. If it tries no more, the last that it was answered."""
    own = [each["process"] for each in context.tables[PROCESSES] if each["client"] == row["client"]]
    if row["client"] is None or not own:
        return []
    place = (max(own), row["topic"], row["partition"])
    times = [
        event["time_ns"]
        for event in context.tables[CLIENT_EVENTS]
        if (event["process"], event["topic"], event["partition"]) == place
        and event["code"] is not None
        and event["time_ns"] <= row["until_ns"]
    ]
    begin_ns = min(row["asked_ns"] - _BEFORE_NS, max(times, default=row["asked_ns"]))
    return answered(context, begin_ns=begin_ns, end_ns=row["until_ns"], process=place[0], partition=history)


# -- in words ---------------------------------------------------------------------------------------------------------


def _finding(context: RunContext, rows: Sequence[ProgressRow], ruled: _Ruled) -> Finding:
    classification, cause = ruled
    history = context.history
    first, last_ns = rows[0], max(row["until_ns"] for row in rows)
    places = sorted({(row["topic"], row["partition"]) for row in rows})
    single = places[0] if len(places) == 1 else (None, None)
    codes = sorted({row["code"] for row in rows if row["code"] is not None})
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind=f"{first['age']}-{first['what']}",
        topic=single[0],
        partition=single[1],
        count=len(places),
        sentence=_sentence(context, rows, places, cause),
        cause=cause,
        open_question=cause.doubt is not None,
        first_ns=min(row["asked_ns"] for row in rows),
        last_ns=last_ns,
        faults=[fault["fault"] for fault in begun(history.faults) if end_of(fault) > first["asked_ns"]],
        evidence={
            "partitions": [f"{topic}-{partition}" for topic, partition in places],
            "clients": _clients(rows),
            "group": first["group"],
            "seconds": (last_ns - first["asked_ns"]) / 1e9,
            "codes": codes,
            "errors": sorted({row["error"] for row in rows if row["error"] is not None}),
        },
    )


def _clients(rows: Sequence[ProgressRow]) -> list[str]:
    return sorted({row["client"] for row in rows if row["client"] is not None})


def _fresh_got(context: RunContext, rows: Sequence[ProgressRow]) -> bool:
    """Whether fresh clients got all that these old ones did not."""
    got = {
        (row["what"], row["topic"], row["partition"])
        for row in context.tables[PROGRESS]
        if row["age"] == "fresh" and row["outcome"] == "done"
    }
    return {(row["what"], row["topic"], row["partition"]) for row in rows} <= got


def _sentence(context: RunContext, rows: Sequence[ProgressRow], places: Sequence[tuple[str, int]], cause: Cause) -> str:
    first, seconds = rows[0], (max(row["until_ns"] for row in rows) - rows[0]["asked_ns"]) / 1e9
    names = ", ".join(f"{topic}-{partition}" for topic, partition in places[:_NAMED_MAX])
    names += ", ..." if len(places) > _NAMED_MAX else ""
    clients = _clients(rows)
    who, was = ", ".join(clients[:_NAMED_MAX]), "was" if len(clients) == 1 else "were"
    if not clients:
        fresh = "a fresh client" if first["group"] is None else f"a fresh member of group {first['group']}"
        who, was = (fresh, "was") if first["age"] == "fresh" else (f"the members of group {first['group']}", "were")
    what = _WORDS[first["what"]].format(who=who, was=was, where=names)
    errors = [error_code(code) for code in sorted({row["code"] for row in rows if row["code"] is not None})]
    said = "".join(f"; it was answered {each}" + (f": {each.meaning}" if each.meaning else "") for each in errors)
    if not errors:
        own = sorted({row["error"] for row in rows if row["error"] is not None})
        said = f"; its library said {', '.join(own[:3])}" if own else ""
    said += "; fresh clients got theirs" if first["age"] == "old" and _fresh_got(context, rows) else ""
    partitions = {(each.topic, each.partition): each for each in context.history.partitions.values()}
    answers = answered_words(_answered(context, partitions[first["topic"], first["partition"]], first))
    said += f"; {answers}" if answers else ""
    return f"After the last heal {what}, for {seconds:.3f} s{said}: {cause_words(cause)}."


FAMILY = Family(name=CHECK, find=find)
