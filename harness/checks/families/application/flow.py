"""An application's flow: what its group has committed of the input topic has come out in the output topic.

The application promises it, not Kafka: whoever commits before he produces, or goes on after an error of his producer,
loses inputs that no broker has lost. Lost: a member of the group was given the input, the group has committed past it,
and the final log of the output topic has nothing of it. Doubled, for who asked for exactly once: more outputs than
inputs, and sent more than once. A violation rests on certain evidence alone: what Kafka lawfully lost of outputs, of
inputs or of the group's offsets permits it, and what is not known makes it an open question.
"""

from collections.abc import Mapping, Sequence

from harness.checks.contract.coordinators_log import Stored, perhaps_taken
from harness.checks.contract.rulings import Cause, Class, Doubt, DoubtCode
from harness.checks.families.application.flow_rows import ANSWER, NAME, FoundFlow, IdRow, InputRow, OutputRow, query
from harness.checks.families.evidence.missing import cut_journals
from harness.checks.families.groups.group_forgetting import forgetting_ruled
from harness.checks.families.groups.group_partition import Kept
from harness.checks.families.transactions.missing_records import MissingRecords
from harness.checks.families.transactions.transaction_forgetting import CODES
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural, ranges
from harness.history.facts.incarnations import client_name
from harness.history.schema.client_rows import FLOWS, PROCESSES, FlowRow
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.schemas import STATUS_OK

CHECK = NAME
_MOVED = ("lost-write", "inconsistent-offsets", "dirty-read")  # what an input had happen to it that is read twice
Ruled = tuple[Class, Cause]


def find(context: RunContext) -> list[Finding]:
    flows = {row["flow"]: row for row in context.tables[FLOWS]}
    found: list[Finding] = []
    for row in sorted(context.rows[ANSWER], key=lambda row: row["flow"]):
        flow = flows[row["flow"]]
        if row["doubt"] is not None:
            found.append(_undecided(context, flow, _in_doubt(row["doubt"], flow["input"])))
            continue
        found += _lost(context, flow, row)
        if flow["exactly_once"]:
            found += _doubled(context, flow, row)
        if any(each["unnamed"] for each in row["ids"]):
            found.append(_undecided(context, flow, _in_doubt("flow-ids-not-told", flow["input"], flow["output"])))
    return found


def summary(context: RunContext, findings: Sequence[Finding]) -> str:
    """The flows of which nothing was found, for the sentence of a verdict."""
    struck = {(each.evidence["input"], each.evidence["output"]) for each in findings if each.check == CHECK}
    groups = {row["flow"]: row["group"] for row in context.rows[ANSWER]}
    return " ".join(
        f"What group {groups[row['flow']]} had committed of {row['input']} came out in {row['output']}."
        for row in context.tables[FLOWS]
        if (row["input"], row["output"]) not in struck
    )


def _in_doubt(code: DoubtCode, *topics: str) -> Ruled:
    return "observation", Cause(code="flow-in-doubt", doubt=Doubt(code=code, partitions=topics))


def _undecided(context: RunContext, flow: FlowRow, ruled: Ruled) -> Finding:
    sentence = (
        f"Whether what the application committed of {flow['input']} came out in {flow['output']} is unknown: "
        f"{cause_words(ruled[1])}."
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification=ruled[0],
        kind="undecided",
        topic=flow["input"],
        count=1,
        sentence=sentence,
        cause=ruled[1],
        open_question=True,
        evidence={"input": flow["input"], "output": flow["output"], "group": flow["group"]},
    )


# ---- lost -----------------------------------------------------------------------------------------------------------


def _lost(context: RunContext, flow: FlowRow, found: FoundFlow) -> list[Finding]:
    records = MissingRecords(context)
    outputs: dict[int, list[OutputRow]] = {}
    for output in found["lost"]:
        outputs.setdefault(output["origin"], []).append(output)
    in_general = _general_doubt(context, flow, found)
    groups: dict[tuple[int, Class, Cause], list[InputRow]] = {}
    for row in found["ids"]:
        if row["origin"] is None or not row["passed"]:
            continue
        own = outputs.get(row["origin"], [])
        if row["open_outputs"] and found["in_a_transaction"]:
            continue  # committed with it, as a whole or not at all
        if any(records.removed(output) for output in own):
            continue
        ruled = _ruled(row, own, records, flow, in_general)
        for each in row["passed"]:
            of_whom = ruled if each["member"] else _in_doubt("read-for-which-group", flow["input"])
            groups.setdefault((each["partition_id"], *of_whom), []).append(each)
    return [
        _lost_finding(context, flow, found, inputs, (classification, cause))
        for (_, classification, cause), inputs in groups.items()
    ]


def _ruled(
    row: IdRow, outputs: Sequence[OutputRow], records: MissingRecords, flow: FlowRow, in_general: Ruled | None
) -> Ruled:
    acknowledged = [output for output in outputs if output["status"] == STATUS_OK]
    if acknowledged:
        return records.ruled(acknowledged)
    if in_general is not None:
        return in_general
    if row["open_outputs"]:
        return _in_doubt("output-in-an-open-transaction", flow["output"])
    if row["unknown"]:
        return "violation", Cause(code="output-not-acknowledged")
    return "violation", Cause(code="output-refused" if row["refused"] else "output-never-sent")


def _general_doubt(context: RunContext, flow: FlowRow, found: FoundFlow) -> Ruled | None:
    """Why an output may be, or have been, there that nobody told of."""
    places = _partitions(context, flow["output"])
    if any(place.deletion is not None for place in places):
        return _in_doubt("outputs-gone-with-a-topic")
    if unread := [place.name for place in places if not place.read_to_end]:
        return _in_doubt("outputs-not-read", *sorted(unread)[:3])
    if any(row["inputs"] == 0 and row["values"] for row in found["ids"]):
        return _in_doubt("flow-ids-not-told", flow["input"], flow["output"])
    if not found["is_written"]:
        return _in_doubt("no-producer-recorded", flow["output"])
    names = {place.topic for place in places}
    if any(finding.topic in names for finding in context.found.get("phantom", ())):
        return _in_doubt("outputs-by-others", flow["output"])
    lost = any(finding.topic in names for finding in context.found.get("lost-write", ()))
    if lost and cut_journals(context, of_senders=True):
        return _in_doubt("answer-may-be-missing", flow["output"])
    return None


def _partitions(context: RunContext, topic: str) -> list[PartitionHistory]:
    return [each for each in context.history.partitions.values() if client_name(each.topic) == topic]


def _lost_finding(
    context: RunContext, flow: FlowRow, found: FoundFlow, inputs: Sequence[InputRow], ruled: Ruled
) -> Finding:
    history, count = context.partition(inputs[0]["partition_id"]), len(inputs)
    ordered = sorted(inputs, key=lambda each: each["offset"])
    offsets = [each["offset"] for each in ordered]
    sentence = (
        f"The application lost {plural(count, 'record')} of {history.name} (offset {ranges(offsets)}): its group "
        f"{found['group']} committed past {'it' if count == 1 else 'them'}, and nothing of "
        f"{'it' if count == 1 else 'them'} is in {flow['output']}: {cause_words(ruled[1])}."
    )
    if ruled[0] == "observation":
        sentence = (
            f"Whether the application lost {plural(count, 'record')} of {history.name} (offset {ranges(offsets)}), of "
            f"which nothing is in {flow['output']}, is unknown: {cause_words(ruled[1])}."
        )
    return _finding(
        context, flow, found, history, ruled, "lost", sentence, offsets, [each["value"] for each in ordered]
    )


# ---- doubled --------------------------------------------------------------------------------------------------------


def _doubled(context: RunContext, flow: FlowRow, found: FoundFlow) -> list[Finding]:
    groups: dict[tuple[int, Class, Cause], list[IdRow]] = {}
    unseen = _unseen_inputs(context, flow, found)
    for row in found["ids"]:
        sent = row["acknowledged"] + row["unknown"]
        if (
            row["origin"] is None
            or row["first_partition"] is None
            or min(row["outputs"], sent) <= max(row["inputs"], 1)
        ):
            continue
        ruled = _doubled_ruled(context, found, row, row["first_partition"])
        if ruled[0] == "violation" and unseen is not None:
            ruled = unseen
        groups.setdefault((row["first_partition"], *ruled), []).append(row)
    findings = []
    for (partition_id, classification, cause), rows in groups.items():
        history, count = context.partition(partition_id), len(rows)
        offsets = sorted(row["first_offset"] for row in rows if row["first_offset"] is not None)
        sentence = (
            f"{plural(count, 'record')} of {history.name} (offset {ranges(offsets)}) {plural(count, 'has')} more than "
            f"one output of the application in {flow['output']}: {cause_words(cause)}."
        )
        values = [value for row in rows for value in row["values"]]
        ruled = classification, cause
        findings.append(_finding(context, flow, found, history, ruled, "doubled", sentence, offsets, values))
    return findings


def _unseen_inputs(context: RunContext, flow: FlowRow, found: FoundFlow) -> Ruled | None:
    """Why an id may have had more inputs than anybody saw, each with its output."""
    if any(each["reads_for"] == found["group"] and each["role"] != "producer" for each in context.tables[PROCESSES]):
        return None  # what it was given is counted
    lacking = [
        place.name
        for place in _partitions(context, flow["input"])
        if not place.read_to_end or place.log_start != 0 or place.may_compact
    ]
    return _in_doubt("inputs-not-read", *sorted(lacking)[:3]) if lacking else None


def _doubled_ruled(context: RunContext, found: FoundFlow, row: IdRow, partition_id: int) -> Ruled:
    history = context.partition(partition_id)
    kept = Kept(group=found["group"] or "", partition=history, sent_ns=0, stored_ns=0, gone_ns=END_OF_TIME_NS)
    forgotten = forgetting_ruled(context, kept)
    if forgotten[0] != "violation":
        return forgotten
    moved = [
        finding
        for check in _MOVED
        for finding in context.found.get(check, ())
        if (finding.topic, finding.partition) == (history.topic, history.partition)
    ]
    if moved:
        is_lawful = all(finding.classification == "permitted" for finding in moved)
        doubt = None if is_lawful else Doubt(code="inputs-moved")
        cause = Cause(code="inputs-moved", doubt=doubt, partitions=(history.name,))
        return "permitted" if is_lawful else "observation", cause
    stored = Stored(sent_ns=0, stored_ns=0, gone_ns=END_OF_TIME_NS)
    taken = perhaps_taken(context.history, None, stored, CODES) if row["transactions"] else None
    return taken or ("violation", Cause(code="output-sent-again"))


def _finding(
    context: RunContext,
    flow: FlowRow,
    found: FoundFlow,
    history: PartitionHistory,
    ruled: Ruled,
    kind: str,
    sentence: str,
    offsets: Sequence[int],
    values: Sequence[int],
) -> Finding:
    evidence: Mapping[str, object] = {
        "group": found["group"],
        "input": flow["input"],
        "output": flow["output"],
        "exactly_once": flow["exactly_once"],
    }
    return Finding(
        run=context.run,
        check=CHECK,
        classification=ruled[0],
        kind=kind,
        topic=history.topic,
        partition=history.partition,
        count=len(offsets),
        sentence=sentence,
        cause=ruled[1],
        open_question=ruled[0] == "observation",
        offsets=offsets,
        values=values,
        evidence=evidence,
    )


FAMILY = Family(name=CHECK, find=find, query=query)
