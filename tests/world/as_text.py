"""`python -m tests.world.as_text SEED [WORLD]`: a history as the world itself tells it: what was lost and what took it,
what else was broken."""

import sys

from tests.world.chronicle import Appended, Checkpointed, Committed, Cut, Entry, Learned, Led, Removed, Reported
from tests.world.histories import History, history
from tests.world.promises import broken_promises
from tests.world.truth import lost_records
from tests.world.world import BEGIN, MS


def lines(history: History) -> list[str]:
    rows: list[tuple[int, str]] = [(each.time_ns, _words(each)) for each in history.chronicle.happenings]
    for fault in history.chronicle.faults:
        rows.append((fault.begin_ns, f"FAULT {fault.number} begins: {fault.label}"))
        if fault.end_ns is not None:
            rows.append((fault.end_ns, f"FAULT {fault.number} ends: {fault.label}"))
    for send in history.chronicle.sends:
        values = f"{send.values[0]}" if len(send.values) == 1 else f"{send.values[0]} to {send.values[-1]}"
        answer = f"offset {send.base} by {send.acknowledged_by}" if send.status == 0 else f"unknown ({send.error})"
        place = f"{send.partition[0]}-{send.partition[1]}"
        rows.append(
            (
                max(send.invoked_ns, send.completed_ns),
                f"{place} producer {send.process} acks {send.acks}: {values}: {answer}",
            )
        )
    for poll in history.chronicle.polls:
        for read in poll.reads:
            offsets = [offset for offset, _ in read.placed()]
            kind = "final read" if poll.final else f"consumer {poll.process}"
            rows.append(
                (
                    poll.completed_ns,
                    f"{read.partition[0]}-{read.partition[1]} {kind}: {offsets} of {read.node}",
                )
            )
    for transaction in history.chronicle.transactions:
        name = f"transaction {transaction.number} of {transaction.transactional_id}, process {transaction.process}"
        rows.append((transaction.begun_ns, f"{name} begins, {transaction.producer}"))
        if transaction.ended_ns is not None:
            rows.append((transaction.ended_ns, f"{name}: outcome {transaction.outcome} {transaction.error or ''}"))
    texts = [f"{(t - BEGIN) / MS:9.1f} ms  {text}" for t, text in sorted(rows, key=lambda row: row[0]) if text]
    for lost in lost_records(history.chronicle):
        place = f"{lost.partition[0]}-{lost.partition[1]} offset {lost.offset} value {lost.value} acks {lost.acks}"
        texts.append(
            f"LOST {place}: {lost.verdict.value}, {lost.fate} at {(lost.time_ns - BEGIN) / MS:.1f} ms: {lost.story}"
        )
    texts += [
        f"BROKEN {each.partition} {each.kind}: {each.verdict.value}: {each.story}" for each in broken_promises(history)
    ]
    return [str(history.setup), *texts, f"flaws that acted: {sorted(history.chronicle.flaws_acted)}"]


def _words(each: object) -> str:
    place = "{}-{}".format(*each.partition) if hasattr(each, "partition") else ""
    match each:
        case Appended():
            last = each.offset + len(each.entries) - 1
            values = f"{each.entries[0].value} (epoch {each.entries[0].epoch})"
            values += _of_coordinators(each.entries[0])
            return f"{place} {each.node} {'writes' if each.by_leader else 'fetches'} {each.offset}-{last}: {values}"
        case Committed():
            state = each.state
            kind = f"unclean, {'allowed' if each.allowed else 'forbidden'}" if each.unclean else ""
            return f"{place} CONTROLLER: leader {state.leader} epoch {state.epoch} ISR {list(state.isr)} {kind}"
        case Cut():
            return f"{place} {each.node} CUT {each.end} -> {each.to}: {each.cause.value} (epoch {each.epoch})"
        case Led():
            return f"{place} {each.node} leads in epoch {each.epoch} from {each.start}"
        case Learned():
            return (
                f"{place} {each.node} learns: leader {each.state.leader} epoch {each.state.epoch} ISR {each.state.isr}"
            )
        case Checkpointed():
            return f"{place} {each.node} high watermark {each.high_watermark}"
        case Removed():
            return f"{place} {each.node} starts at {each.to}"
        case Reported():
            return f"{each.node} {each.event}"
        case _:
            return ""


def _of_coordinators(entry: Entry) -> str:
    if entry.marks is not None:
        return f" MARKER of {entry.producer}: {'commit' if entry.marks else 'abort'}"
    return f" {entry.kept}" if entry.kept is not None else f" of {entry.producer}" if entry.producer else ""


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines(history(int(sys.argv[1]), *sys.argv[2:]))) + "\n")
