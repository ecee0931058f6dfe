"""Group offsets: compares the committed offset that a member fetched with the commits before.

A fetch of the committed offset must return a commit that was not yet overwritten (group_register.py). Lost: it returned
none. Regressed: it returned an offset below all valid ones. Foreign: it returned an offset that no last commit can
have had. Overtaken: a commit that was sent again stands before and behind what it returned, and nobody knows which of
its records was answered; one whose replication took too long is in the log, and not applied until that is read again
(GroupMetadataManager.storeOffsets). Not judged: failed fetches, and offsets that had expired. What lawfully makes a
group forget its offsets is said in group_forgetting.py.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from harness.checks.contract.coordinators_log import Ruled
from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, Class, Doubt
from harness.checks.families.groups.deposed_coordinator import may_be_its_answer
from harness.checks.families.groups.group_forgetting import EXPIRED, forgetting_ruled
from harness.checks.families.groups.group_partition import Kept, partition_of_group
from harness.checks.families.groups.group_register import (
    Asking,
    Fetch,
    Register,
    fetch_of,
    registers,
    registers_as_forgotten,
)
from harness.checks.families.groups.unrecorded_clients import COMMITTED, set_to
from harness.checks.families.groups.unstored_commits import Unstored, unstored
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns, PlacedEvent
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import nodes_words, plural
from harness.history.schema.client_rows import GROUP_EVENTS, GroupEventRow
from harness.history.schema.internal_rows import CONSUMER_OFFSETS
from harness.history.schema.schemas import STATUS_OK
from harness.history.schema.typed_rows import RowsOf

CHECK = "lost-group-offset"
UNSTORED = "unstored"
OVERTAKEN = "overtaken"
_NOT_WRONG = (None, "pending", OVERTAKEN)
_WORDS = {
    "lost": "that none was",
    "regressed": "a lower one",
    "foreign": "one that nobody had committed last",
    "aborted": "one that had been sent to an aborted transaction",
    "pending": "what had been before",
    OVERTAKEN: "one that stands before the last record of another, which was sent again,",
}


class WrongFetchRow(PlacedEvent):
    """A fetch with a wrong answer, and the commit that it had to return, if known. shown_ns: when a fetch began that
    still showed it. first: of the commits after what was told, if known: when it was asked for, when it
    was answered, and its offset. forgotten: what lawfully made the coordinator of a transaction forget it, if nothing
    else explains the answer. perhaps_deposed: a coordinator that was replaced may lawfully have answered so."""

    kind: str
    told: int | None
    committed: int | None
    committed_sent: int | None
    committed_t: int | None
    shown_ns: int | None
    first: tuple[int, int, int] | None
    forgotten: Ruled | None
    perhaps_deposed: bool


_BY_WHICH_RECORD = Cause(code="commit-perhaps-overwritten", doubt=Doubt(code="answered-by-which-record"))
BY_A_DEPOSED = Cause(code="group-offsets-told-by-whom", doubt=Doubt(code="told-by-a-deposed-coordinator"))
ANSWER = RowsOf(CHECK, WrongFetchRow)


def query(runs: JudgedRuns) -> list[WrongFetchRow]:
    """Fetches whose answer no commit explains. Commits and fetches are few: no Spark job."""
    known, as_forgotten = runs.once(registers), registers_as_forgotten(runs)
    rows: list[WrongFetchRow] = []
    events = runs.group_events()
    for event in events:
        if event["event"] != "fetched" or event["status"] != STATUS_OK:
            continue
        key = event["run"], event["group"], event["partition_id"]
        register, fetch = known.get(key), fetch_of(event)
        kind, other = _kind(register, fetch), as_forgotten.get(key)
        if kind is not None:
            rows.append(_by_register(runs, event, register, fetch, kind))
        elif other is not None and (kind := _kind(other.register, fetch)) not in _NOT_WRONG:
            until = other.until(fetch.completed_ns)
            if (kind_until := _kind(until, fetch)) not in _NOT_WRONG:  # what was forgotten later is no cause of it
                rows.append(_by_register(runs, event, until, fetch, kind_until))
            else:  # lawful only since a coordinator forgot a transaction
                row = _wrong(event, other.register, fetch, kind)
                held = other.register.held_by(fetch, fetch.asking)
                rows.append({**row, "forgotten": other.ruled(fetch, held)})
    harmed = {(row["run"], row["group"], row["partition_id"], row["committed"]) for row in rows}
    for each in unstored(runs):
        if (*each.key, each.held.offset) not in harmed:
            event = next(event for event in events if _is_of(each, event))
            read: PlacedEvent = {**event, "invoked_ns": each.read.invoked_ns, "completed_ns": each.read.completed_ns}
            rows.append(_wrong(read, known[each.key], each.read, UNSTORED))
    return rows


def _by_register(
    runs: JudgedRuns, event: PlacedEvent, register: Register | None, fetch: Fetch, kind: str
) -> WrongFetchRow:
    deposed = (
        kind not in ("pending", OVERTAKEN) and register is not None and _perhaps_deposed(runs, event, register, fetch)
    )
    return {**_wrong(event, register, fetch, kind), "perhaps_deposed": deposed}


def _wrong(event: PlacedEvent, register: Register | None, fetch: Fetch, kind: str) -> WrongFetchRow:
    if register is not None and kind == OVERTAKEN:
        register = register.by_last_records
    held = None if register is None else register.held_by(fetch, _asking(kind, fetch))
    shown_ns = None if register is None else register.still_shown(held, fetch.invoked_ns)
    first = None if register is None else register.first_after(fetch)
    return {
        **event,
        "kind": kind,
        "told": fetch.offset,
        "committed": held.offset if held else None,
        "committed_sent": register.asked_for(held) if register is not None and held is not None else None,
        "committed_t": held.completed_ns if held else None,
        "shown_ns": shown_ns,
        "first": None if first is None else (first.invoked_ns, first.completed_ns, first.offset),
        "forgotten": None,
        "perhaps_deposed": False,
    }


def _perhaps_deposed(runs: JudgedRuns, event: PlacedEvent, register: Register, fetch: Fetch) -> bool:
    history = next(each for each in runs.histories if each.run == event["run"])
    rows = runs.tables.rows(CONSUMER_OFFSETS, event["run"])
    return may_be_its_answer(history, rows, event["group"], register, fetch)


def _asking(kind: str, fetch: Fetch) -> Asking:
    return "late" if kind in ("pending", UNSTORED) else fetch.asking


def _is_of(each: Unstored, event: PlacedEvent) -> bool:
    """Whether it committed, or fetched, what stands in no log."""
    place = event["run"], event["group"], event["partition_id"]
    return (place, event["offset"]) == (each.key, each.held.offset) and event["invoked_ns"] == each.held.invoked_ns


def _kind(register: Register | None, fetch: Fetch) -> str | None:
    if register is None:
        return None if fetch.offset is None else "foreign"
    offsets = register.may_answer(fetch)
    if fetch.offset in offsets:
        if fetch.offset not in register.may_answer(fetch, "late"):
            return "pending"
        return None if fetch.offset in register.by_last_records.may_answer(fetch) else OVERTAKEN
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
        ruled = _ruling(context, row)
        if ruled[1].code == EXPIRED:
            continue
        groups.setdefault((row["partition_id"], row["group"], row["kind"], *ruled), []).append(row)
    ordered = sorted(groups.items(), key=lambda group: group[0][:4])
    return [_finding(context, context.partition(key[0]), key[2], key[3:], rows) for key, rows in ordered]


def _ruling(context: RunContext, row: WrongFetchRow) -> Ruled:
    if row["forgotten"] is not None:
        return row["forgotten"]
    if row["kind"] == OVERTAKEN:
        return "observation", _BY_WHICH_RECORD
    if row["kind"] == "pending":
        return "observation", Cause(code="transaction-perhaps-pending")
    return _ruled(context, row)


def _ruled(context: RunContext, row: WrongFetchRow) -> tuple[Class, Cause]:
    ruled = forgetting_ruled(context, _kept(context, row))
    if set_to(ruled[1]) not in (None, row["told"]):
        ruled = "violation", NOTHING_PERMITS_IT  # somebody committed another one
    if ruled[0] == "violation" and row["perhaps_deposed"]:
        return "observation", BY_A_DEPOSED
    if ruled[0] == "permitted" and ruled[1].code not in (EXPIRED, COMMITTED):
        return _first_ruled(context, row) or ruled
    return ruled


class AnsweredOffsets:
    """What the members of a group went by in a partition, as far as that was a wrong answer."""

    def __init__(self, context: RunContext, group: str | None, partition: PartitionHistory) -> None:
        self._context = context
        self._wrong = {
            (row["process"], row["invoked_ns"]): row
            for row in context.rows[ANSWER]
            if row["kind"] != UNSTORED and (row["group"], row["partition_id"]) == (group, partition.partition_id)
        }
        self._own: dict[int, list[GroupEventRow]] = {process: [] for process, _ in self._wrong}
        for event in sorted(context.tables[GROUP_EVENTS], key=_completed) if self._own else ():
            place = event["topic"], event["partition"]
            if place == (partition.topic, partition.partition) and event["event"] in ("fetched", "revoked", "lost"):
                self._own.get(event["process"], []).append(event)

    def by_a_deposed(self, process: int | None, by_ns: int) -> WrongFetchRow | None:
        """The answer by which the process had the partition then, if it may lawfully be a replaced coordinator's."""
        answer = self._answer(process, by_ns)
        return answer if answer is not None and answer["perhaps_deposed"] else None

    def below_what_was_lost(self, process: int | None, by_ns: int, offset: int) -> Ruled | None:
        """Why the group had lawfully forgotten that it had passed the offset, when the process was told to go on there
        or below, which had the partition then by that answer."""
        answer = self._answer(process, by_ns)
        if answer is None or (answer["told"] or 0) > offset or (answer["committed"] or 0) <= offset:
            return None
        ruled = _ruling(self._context, answer)
        return ruled if ruled[0] == "permitted" else None

    def _answer(self, process: int | None, by_ns: int) -> WrongFetchRow | None:
        own = self._own.get(process, []) if process is not None else []
        count = bisect_right(own, by_ns, key=_completed)
        last = own[count - 1] if count else None
        if last is None or last["event"] != "fetched":
            return None
        return self._wrong.get((last["process"], last["invoked_ns"]))


def _completed(event: GroupEventRow) -> int:
    return event["completed_ns"]


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
        expires=row["told"] is None and row["committed_t"] is not None,
        asked_ns=row["invoked_ns"],
        process=None if row["kind"] == UNSTORED else row["process"],
    )


def _all_are_known(context: RunContext) -> bool:
    """Whether the offset of a group without any commit cannot come from a client outside the run."""
    return not any(event["event"] == "committed" for event in context.tables[GROUP_EVENTS])


def _answer_words(context: RunContext, history: PartitionHistory, kind: str, rows: Sequence[WrongFetchRow]) -> str:
    first = rows[0]
    had = "" if first["committed"] is None else f" although {first['committed']} had been committed"
    where = "" if first["told"] is None else f" ({first['told']})"
    return (
        f"Group {first['group']} asked {plural(len(rows), 'time')} for its committed offset of {history.name} and was "
        f"told {_WORDS[kind]}{where}{had}, first {context.history.seconds(first['completed_ns'])}"
    )


def _unstored_words(context: RunContext, history: PartitionHistory, kind: str, rows: Sequence[WrongFetchRow]) -> str:
    first = rows[0]
    place = partition_of_group(context, first["group"] or "")
    logs = "its logs" if place is None else f"the logs of {place.name} in sync ({nodes_words(place.final_isr)})"
    stands = "there is none" if first["told"] is None else f"the newest one there is {first['told']}"
    return (
        f"Group {first['group']} committed {first['committed']} of {history.name}, and no client was told otherwise; "
        f"{logs} do not have it, {context.history.seconds(first['completed_ns'])}, {stands}"
    )


def _finding(
    context: RunContext, history: PartitionHistory, kind: str, ruled: tuple[Class, Cause], rows: Sequence[WrongFetchRow]
) -> Finding:
    first = rows[0]
    classification, cause = ruled
    words = _unstored_words if kind == UNSTORED else _answer_words
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind=kind,
        topic=history.topic,
        partition=history.partition,
        count=len(rows),
        sentence=f"{words(context, history, kind, rows)}: {cause_words(cause)}.",
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
