"""Transactions of which clients were told otherwise than what was decided (KIP-98): the coordinators' logs say.

A coordinator answers EndTxn after its decision is in its log on all in-sync replicas, and a decision is never taken
back: every partition gets the marker that it names. So who was told "committed" has PrepareCommit in the transactions'
log and a commit marker behind its offsets; who aborted, or never asked for a commit, has neither. Only what the kept
logs hold counts; what is not there may have been compacted, or not have been kept.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from harness.checks.contract.coordinators_log import Ruled, Stored, perhaps_taken, taken_by, taken_from
from harness.checks.contract.rulings import NOTHING_PERMITS_IT, Cause, Class
from harness.checks.contract.timelines import Timelines
from harness.checks.families.groups import offsets_in_logs
from harness.checks.families.groups.group_forgetting import CODES
from harness.checks.families.groups.group_partition import Kept, partition_of_group
from harness.checks.families.groups.stored_records import offset_of
from harness.checks.families.transactions import transaction_forgetting, transactions_in_logs
from harness.checks.families.transactions.transaction_forgetting import TransactionForgetting
from harness.checks.families.transactions.transactions_in_logs import Key, key_of
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import JudgedRuns
from harness.checks.model.elections import Election
from harness.checks.model.partition_history import PartitionHistory
from harness.checks.wording.causes import cause_words
from harness.checks.wording.words import plural
from harness.history.facts.internal_topics import CLOCKS_APART_NS, GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from harness.history.schema.client_rows import TRANSACTIONS, TransactionRow
from harness.history.schema.column_types import END_OF_TIME_NS
from harness.history.schema.internal_rows import CONSUMER_OFFSETS, ConsumerOffsetsRow
from harness.history.schema.schemas import STATUS_FAIL, STATUS_OK
from harness.history.schema.typed_rows import RowsOf

CHECK = "transaction-outcome"
_WORDS = {"told-committed": ("committed", "aborted"), "told-aborted": ("aborted", "committed")}


class ToldOtherwiseRow(TransactionRow):
    """log: the internal topic that says otherwise, since decided_ns by its broker's clock. group, topic, partition,
    offset: in the log of offsets, the first of those that were sent to it."""

    log: str
    decided_ns: int | None
    topic: str | None
    partition: int | None
    offset: int | None


ANSWER = RowsOf(CHECK, ToldOtherwiseRow)


def query(runs: JudgedRuns) -> list[ToldOtherwiseRow]:
    """Of each transaction and log at most one. The logs hold few transactions: no Spark job if they were not kept."""
    answered = {key_of(row): row for row in runs.rows(TRANSACTIONS) if row["outcome"] in (STATUS_OK, STATUS_FAIL)}
    found: dict[tuple[Key, str], ToldOtherwiseRow] = {}
    for key, transaction in runs.once(transactions_in_logs.in_logs).items():
        row = answered.get(key)
        if row is not None and transaction.commits not in (None, row["outcome"] == STATUS_OK):
            found[key, TRANSACTIONS_TOPIC] = {
                **row,
                "log": TRANSACTIONS_TOPIC,
                "decided_ns": transaction.decided_ns,
                "topic": None,
                "partition": None,
                "offset": None,
            }
    offsets = runs.once(offsets_in_logs.in_logs)
    for event in runs.group_events() if offsets else ():
        offset, number = event["offset"], event["transaction"]
        row = None if number is None else answered.get((event["run"], number))
        if row is None or offset is None or event["event"] != "committed":
            continue
        record = offsets.get(offsets_in_logs.place_of(event, offset))
        if record is not None and record.commits not in (None, row["outcome"] == STATUS_OK):
            own: ToldOtherwiseRow = {
                **row,
                "log": GROUP_OFFSETS_TOPIC,
                "decided_ns": record.marked_ns,
                "group": event["group"],
                "topic": event["topic"],
                "partition": event["partition"],
                "offset": offset,
            }
            found.setdefault((key_of(row), GROUP_OFFSETS_TOPIC), own)
    return list(found.values())


def find(context: RunContext) -> list[Finding]:
    groups: dict[tuple[str, str, Class, Cause], list[ToldOtherwiseRow]] = {}
    lawful = _Lawful(context)
    for row in sorted(context.rows[ANSWER], key=lambda row: row["invoked_ns"]):
        kind = "told-committed" if row["outcome"] == STATUS_OK else "told-aborted"
        groups.setdefault((kind, row["log"], *lawful.ruled(row)), []).append(row)
    ordered = sorted(groups.items(), key=lambda group: group[0][:3])
    return [_finding(context, key[0], key[1], key[2:], rows) for key, rows in ordered]


class _Lawful:
    """What may lawfully have made a log of one run say otherwise, before it said so: what its coordinator had stored of
    the transaction went, and it was decided anew; or its marker went from the log of offsets, and the next one of its
    producer ended it."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._forgetting = TransactionForgetting.of(context)

    def ruled(self, row: ToldOtherwiseRow) -> Ruled:
        decided_ns = row["decided_ns"]
        until_ns = END_OF_TIME_NS if decided_ns is None else decided_ns + CLOCKS_APART_NS
        ruled = self._forgetting.ruled(row, until_ns) or self._doubted(row)
        if row["log"] == GROUP_OFFSETS_TOPIC and (ruled is None or ruled[0] != "permitted"):
            ruled = self._by_its_marker(row, until_ns) or ruled
        return ruled or ("violation", NOTHING_PERMITS_IT)

    def _doubted(self, row: ToldOtherwiseRow) -> Ruled | None:
        """Where nobody recorded who led that log, nobody knows whose clock says when it was decided."""
        ruled = self._forgetting.ruled(row, END_OF_TIME_NS)
        unrecorded = (transaction_forgetting.CODES.on_a_lost_disk, transaction_forgetting.CODES.elected_uncleanly)
        return ruled if ruled is not None and ruled[1] in unrecorded else None

    def _by_its_marker(self, row: ToldOtherwiseRow, until_ns: int) -> Ruled | None:
        history, since_ns = self._context.history, row["invoked_ns"]
        place = partition_of_group(self._context, row["group"] or "")
        stored = Stored(sent_ns=since_ns, stored_ns=since_ns, gone_ns=until_ns)
        if place is None:
            return perhaps_taken(history, None, stored, CODES)
        stored = replace(stored, offset=self._place_of_its_marker(row, place, until_ns))
        taken = taken_from(place, Timelines(place), stored, CODES, partial(self._is_spared, row, place))
        return perhaps_taken(history, place, stored, CODES) if taken is None and not place.exact else taken

    def _place_of_its_marker(self, row: ToldOtherwiseRow, place: PartitionHistory, until_ns: int) -> int | None:
        """Where a log had the marker that its client was told of, if that was read."""
        of = [each for each in self._context.history.partitions.values() if _is_at(each, row)]
        if row["outcome"] != STATUS_OK or not of:
            return None
        kept = Kept(
            group=row["group"] or "",
            partition=of[0],
            sent_ns=row["invoked_ns"],
            stored_ns=row["completed_ns"],
            gone_ns=until_ns,
            offset=row["offset"],
        )
        return offset_of(self._context, place, kept)

    def _is_spared(self, row: ToldOtherwiseRow, place: PartitionHistory, election: Election) -> bool:
        """Whether all is known that an election took of that log, and no marker of its producer is in it."""
        taken, rows = taken_by(place, election), self._context.tables[CONSUMER_OFFSETS]
        if taken is None:
            return False
        numbers = {log.number for log in taken.logs}
        own = {each["producer_id"] for each in rows if _is_its_offset(row, place, each)}
        return not any(
            each["kind"] == "marker" and each["producer_id"] in own and numbers & set(each["snapshots"])
            for each in rows
            if each["partition"] == place.partition and each["offset"] >= taken.start
        )


def _is_at(partition: PartitionHistory, row: ToldOtherwiseRow) -> bool:
    return (partition.topic, partition.partition) == (row["topic"], row["partition"])


def _is_its_offset(row: ToldOtherwiseRow, place: PartitionHistory, record: ConsumerOffsetsRow) -> bool:
    told = (row["group"], row["topic"], row["partition"], row["offset"])
    said = (record["group"], record["topic"], record["topic_partition"], record["committed_offset"])
    return record["partition"] == place.partition and record["transactional"] and said == told


def _finding(
    context: RunContext, kind: str, log: str, ruled: tuple[Class, Cause], rows: Sequence[ToldOtherwiseRow]
) -> Finding:
    classification, cause = ruled
    first = rows[0]
    said, decided = _WORDS[kind]
    sentence = (
        f"Clients were told that {plural(len(rows), 'transaction')} {plural(len(rows), 'was')} {said}, and {log} says "
        f"{decided} (first transaction {first['transaction']} of process {first['process']}, "
        f"{context.history.seconds(first['completed_ns'])}): {cause_words(cause)}."
    )
    one = {(row["topic"], row["partition"]) for row in rows}
    topic, partition = next(iter(one)) if len(one) == 1 else (None, None)
    return Finding(
        run=context.run,
        check=CHECK,
        classification=classification,
        kind=kind,
        topic=topic,
        partition=partition,
        count=len(rows),
        sentence=sentence,
        cause=cause,
        open_question=cause.doubt is not None,
        offsets=[row["offset"] for row in rows if row["offset"] is not None],
        first_ns=first["invoked_ns"],
        last_ns=rows[-1]["completed_ns"],
        evidence={
            "log": log,
            "group": first["group"] if log == GROUP_OFFSETS_TOPIC else None,
            "transactions": [
                {
                    "transaction": row["transaction"],
                    "process": row["process"],
                    "error": row["error"],
                    "decided_t_ns": row["decided_ns"],
                    "offset": row["offset"],
                }
                for row in rows[:20]
            ],
        },
    )


FAMILY = Family(name=CHECK, find=find, query=query)
