"""What was done to the cluster, in order of time: every fault that was seen, and the plan's other acts; and what nobody
of the plan did: nodes that ended."""

from harness.history.facts.fault_facts import begin_of, begun
from harness.history.schema.cluster_rows import FAULTS, NODE_ENDS, STEPS, FaultRow, NodeEndRow, StepRow
from reports.model import DoneRow
from reports.run.story import fault_title
from reports.run_data import RunData


def done(data: RunData) -> list[DoneRow]:
    """A fault says until when it lasted; healing and restarts stand with what they brought back."""
    faults = begun(data.rows(FAULTS))
    of_faults = {row["step"] for row in faults}
    rows = [(begin_of(row), _fault(data, row)) for row in faults]
    rows += [
        (begin_ns, _act(data, row))
        for row in data.rows(STEPS)
        if row["kind"] == "act" and row["step"] not in of_faults and (begin_ns := row["begin_ns"]) is not None
    ]
    rows += [(end["time_ns"], _end(data, end)) for end in data.rows(NODE_ENDS)]
    return [row for _, row in sorted(rows, key=lambda pair: pair[0])]


def acts_on_the_cluster(data: RunData) -> list[str]:
    """What the plan's steps asked of it, but for faults and records."""
    acts = (row for row in data.rows(STEPS) if row["kind"] == "act" and row["act"] not in (None, "produce"))
    return [data.readable(str(row["step_text"])) for row in acts if row["begin_ns"] is not None]


def _fault(data: RunData, fault: FaultRow) -> DoneRow:
    return DoneRow(
        at=data.moment(fault["begin_ns"]),
        until=data.moment(fault["end_ns"]) if fault["end_ns"] is not None else "the end",
        what=fault_title(data, fault),
        seen=data.readable(fault["proof_text"] or "no proof recorded"),
        ok=True,
    )


def _end(data: RunData, end: NodeEndRow) -> DoneRow:
    return DoneRow(
        at=data.moment(end["time_ns"]),
        until=data.moment(end["back_ns"]) if end["back_ns"] is not None else "the end",
        what=data.ended_words(end),
        seen=data.readable(end["line_text"] or "it logged no error"),
        ok=False,
    )


def _act(data: RunData, step: StepRow) -> DoneRow:
    text = str(step["step_text"])
    failed = step["outcome"] != "ok"
    return DoneRow(
        at=data.moment(step["begin_ns"]),
        until="",
        what=data.readable(text[:1].upper() + text[1:]) + (f" ({step['outcome']})" if failed else ""),
        seen=data.readable(step["seen_text"] or ""),
        ok=not failed,
    )
