"""Group offsets: compares the committed offset that a member fetched with the commits before.

A fetch of the committed offset must return a commit that was not yet overwritten (group_register.py). Lost: it returned
none. Regressed: it returned an offset below all valid ones. Foreign: it returned an offset that no last commit can
have had. Not judged: failed fetches, and offsets that had expired. What lawfully makes a group forget its offsets is
said in group_forgetting.py.
"""

from collections.abc import Sequence
from dataclasses import replace

from harness.checks.contract.rulings import Cause, Class
from harness.checks.families.groups.group_forgetting import EXPIRED, forgetting_ruled
from harness.checks.families.groups.group_partition import Kept
from harness.checks.families.groups.group_register import Commit, Fetch, Register, fetch_of, registers
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns, PlacedEvent
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural
from harness.history.schema.client_rows import GROUP_EVENTS
from harness.history.schema.schemas import STATUS_OK
from harness.history.schema.typed_rows import RowsOf

CHECK = "lost-group-offset"
_WORDS = {
    "lost": "that none was",
    "regressed": "a lower one",
    "foreign": "one that nobody had committed last",
    "aborted": "one that had been sent to an aborted transaction",
    "pending": "what had been before",
}


class WrongFetchRow(PlacedEvent):
    """A fetch with a wrong answer, and the commit that it had to return, if known. shown_ns: when a fetch began that
    was still answered lawfully. first: of the commits after what was told, if known: when it was asked for, when it
    was answered, and its offset."""

    kind: str
    told: int | None
    committed: int | None
    committed_sent: int | None
    committed_t: int | None
    shown_ns: int | None
    first: tuple[int, int, int] | None


ANSWER = RowsOf(CHECK, WrongFetchRow)


def query(runs: JudgedRuns) -> list[WrongFetchRow]:
    """Fetches whose answer no commit explains. Commits and fetches are few: no Spark job."""
    known = runs.once(registers)
    rows: list[WrongFetchRow] = []
    for event in runs.group_events():
        if event["event"] != "fetched" or event["status"] != STATUS_OK:
            continue
        register = known.get((event["run"], event["group"], event["partition_id"]))
        fetch = fetch_of(event)
        kind = _kind(register, fetch)
        if kind is not None:
            shown = None if register is None else register.shown_before(fetch.invoked_ns)
            last = None if register is None else _held_last(register, fetch, kind, shown)
            rows.append(
                {
                    **event,
                    "kind": kind,
                    "told": fetch.offset,
                    "committed": last.offset if last else None,
                    "committed_sent": _asked_for(register, last),
                    "committed_t": last.completed_ns if last else None,
                    "shown_ns": shown.invoked_ns if shown else None,
                    "first": None if register is None else _first_after(register, fetch),
                }
            )
    return rows


def _first_after(register: Register, fetch: Fetch) -> tuple[int, int, int] | None:
    first = register.first_after(fetch)
    return None if first is None else (first.invoked_ns, first.completed_ns, first.offset)


def _held_last(register: Register, fetch: Fetch, kind: str, shown: Fetch | None) -> Commit | Fetch | None:
    """What the group's offset was, for all that is known: the last certain commit, or what was answered after it."""
    last = register.last_before(fetch.invoked_ns, "late" if kind == "pending" else fetch.asking)
    if shown is None or (last is not None and (last.completed_ns >= shown.invoked_ns or last.offset == shown.offset)):
        return last
    return shown


def _asked_for(register: Register | None, held: Commit | Fetch | None) -> int | None:
    """When its record cannot have been written before."""
    if register is None or not isinstance(held, Fetch):
        return None if held is None else held.invoked_ns
    own = (each.invoked_ns for each in register.commits if each.offset == held.offset)
    return max((sent_ns for sent_ns in own if sent_ns <= held.completed_ns), default=held.invoked_ns)


def _kind(register: Register | None, fetch: Fetch) -> str | None:
    if register is None:
        return None if fetch.offset is None else "foreign"
    offsets = register.may_answer(fetch)
    if fetch.offset in offsets:
        return None if fetch.offset in register.may_answer(fetch, "late") else "pending"
    if fetch.offset is None:
        return "lost"
    if register.was_aborted(fetch):
        return "aborted"
    known = [offset for offset in offsets if offset is not None]
    return "regressed" if known and fetch.offset < min(known) else "foreign"


def find(context: RunContext) -> list[Finding]:
    groups: dict[tuple[int, str, str, Class, Cause], list[WrongFetchRow]] = {}
    for row in context.rows[ANSWER]:
        if row["kind"] == "foreign" and row["committed"] is None and not _all_are_known(context):
            continue
        ruled: tuple[Class, Cause] = "observation", Cause(code="transaction-perhaps-pending")
        if row["kind"] != "pending":
            ruled = forgetting_ruled(context, _kept(context, row))
            if ruled[0] == "permitted" and ruled[1].code != EXPIRED:
                ruled = _first_ruled(context, row) or ruled
        if ruled[1].code == EXPIRED:
            continue
        groups.setdefault((row["partition_id"], row["group"], row["kind"], *ruled), []).append(row)
    ordered = sorted(groups.items(), key=lambda group: group[0][:4])
    return [_finding(context, context.partition(key[0]), key[2], key[3:], rows) for key, rows in ordered]


def _first_ruled(context: RunContext, row: WrongFetchRow) -> tuple[Class, Cause] | None:
    """What took the first commit after what was told, if it was no more permitted than that: it is gone, too, and what
    takes a log's end takes the last one before it."""
    if row["first"] is None or row["first"][1] == row["committed_t"]:
        return None
    sent_ns, stored_ns, offset = row["first"]
    kept = replace(_kept(context, row), sent_ns=sent_ns, stored_ns=stored_ns, offset=offset, shown_ns=None)
    ruled = forgetting_ruled(context, kept)
    return None if ruled[0] == "permitted" else ruled


def _kept(context: RunContext, row: WrongFetchRow) -> Kept:
    return Kept(
        group=row["group"],
        partition=context.partition(row["partition_id"]),
        sent_ns=row["committed_sent"] or 0,
        stored_ns=row["committed_t"] or 0,
        gone_ns=row["completed_ns"],
        offset=row["committed"],
        shown_ns=row["shown_ns"],
        expires=row["kind"] == "lost" and row["committed_t"] is not None,
        asked_ns=row["invoked_ns"],
        process=row["process"],
    )


def _all_are_known(context: RunContext) -> bool:
    """Whether the offset of a group without any commit cannot come from a client outside the run."""
    return not any(event["event"] == "committed" for event in context.tables[GROUP_EVENTS])


def _finding(
    context: RunContext, history: PartitionHistory, kind: str, ruled: tuple[Class, Cause], rows: Sequence[WrongFetchRow]
) -> Finding:
    first = rows[0]
    classification, cause = ruled
    had = "" if first["committed"] is None else f" although {first['committed']} had been committed"
    where = "" if first["told"] is None else f" ({first['told']})"
    sentence = (
        f"Group {first['group']} asked {plural(len(rows), 'time')} for its committed offset of {history.name} and was "
        f"told {_WORDS[kind]}{where}{had}, first {context.history.seconds(first['completed_ns'])}: "
        f"{cause_words(cause)}."
    )
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind=kind,
        topic=history.topic,
        partition=history.partition,
        count=len(rows),
        sentence=sentence,
        cause=cause,
        open_question=cause.doubt is not None,
        first_ns=first["invoked_ns"],
        last_ns=rows[-1]["completed_ns"],
        offsets=[row["told"] for row in rows if row["told"] is not None],
        faults=[
            fault["fault"]
            for fault in history.faults_between(first["committed_t"] or first["invoked_ns"], first["completed_ns"])
        ],
        evidence={
            "group": first["group"],
            "answers": [
                {
                    "process": row["process"],
                    "t_ns": row["completed_ns"],
                    "told": row["told"],
                    "committed": row["committed"],
                    "committed_t_ns": row["committed_t"],
                }
                for row in rows[:20]
            ],
        },
    )


FAMILY = Family(name=CHECK, find=find, query=query)
