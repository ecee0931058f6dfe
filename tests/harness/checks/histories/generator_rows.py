"""What happened in a simulated run, and how a run folder's tables tell it: rows in order of completion."""

from dataclasses import dataclass, field
from typing import Any

from tests.harness.checks.histories.build import ISR, SECOND, History

OK, FAIL, INFO = 0, 1, 2
COMMITTED_ONLY, EVERYTHING = "read_committed", "read_uncommitted"
GROUP = "g"


@dataclass
class Entry:
    """What lies at an offset: a record of an epoch; value None is a transaction marker or a compacted record."""

    value: int | None
    epoch: int
    stamp_ms: int = 0
    transaction: "Txn | None" = None


@dataclass
class Send:
    """One producer's request: its records lie in one partition, one after another."""

    process: int
    partition_id: int
    acks: int
    values: list[int]
    invoked_ns: int
    offsets: list[int] | None = None  # where they landed
    stamp_ms: int | None = None  # what the broker answered
    completed_ns: int = 0
    status: int = OK
    transaction: "Txn | None" = None


@dataclass
class Txn:
    """A transaction. `committed`: what became of it; `outcome`: the answer that its producer got."""

    number: int
    process: int
    invoked_ns: int
    completed_ns: int = 0
    sends: list[Send] = field(default_factory=list)
    committed: bool | None = None
    outcome: int = INFO
    transactional_id: str = "tx"
    group: str | None = None  # whose offsets were sent to it


@dataclass
class Poll:
    """One answer to a consumer: (partition, offset, entry) in the order they came."""

    process: int
    invoked_ns: int
    completed_ns: int
    records: list[tuple[int, int, Entry]]
    assignments: dict[int, int]
    status: int = OK
    final: bool = False
    replica: int | None = None
    transaction: "Txn | None" = None


@dataclass
class Partition:
    log: list[Entry] = field(default_factory=list)
    leader: int = 1
    epoch: int = 0
    isr: tuple[int, ...] = ISR
    states: list[tuple[int, int, tuple[int, ...], int, int]] = field(default_factory=list)

    def note(self, time_ns: int) -> None:
        self.states.append((self.leader, self.epoch, self.isr, time_ns, len(self.log)))

    def readable(self, start: int, end: int, *, isolation: str) -> list[tuple[int, Entry]]:
        """The records of [start, end) that a reader of that isolation is given; below the last stable offset only."""
        found = []
        for offset in range(start, min(end, len(self.log))):
            entry = self.log[offset]
            if isolation == COMMITTED_ONLY and entry.transaction is not None:
                if entry.transaction.committed is None:
                    break
                if not entry.transaction.committed:
                    continue
            if entry.value is not None:
                found.append((offset, entry))
        return found

    def stable_end(self, *, isolation: str) -> int:
        open_ones = (
            offset for offset, entry in enumerate(self.log) if entry.transaction and entry.transaction.committed is None
        )
        return min(open_ones, default=len(self.log)) if isolation == COMMITTED_ONLY else len(self.log)


@dataclass
class Consumer:
    process: int
    position: dict[int, int] = field(default_factory=dict)
    assignment: dict[int, int] = field(default_factory=dict)
    generation: int = 0
    deposed: bool = False  # others have its partitions, and it does not know


class Rows:
    def __init__(self, run: int, *, log_append: bool) -> None:
        self.history = History(run=run)
        self.history.rows["partitions"].clear()
        self._operation = 0
        self._log_append = log_append

    def _operation_row(self, f: str, done: Send | Poll, count: int, transaction: int | None) -> int:
        number = self._operation
        self._operation += 1
        self.history._add(
            "operations",
            operation=number,
            process=done.process,
            client=f"client-{done.process}",
            function=f,
            status=done.status,
            invoked_ns=done.invoked_ns,
            completed_ns=done.completed_ns,
            count=count,
            transaction=transaction,
        )
        return number

    def send(self, done: Send) -> None:
        txn = None if done.transaction is None else done.transaction.number
        operation = self._operation_row("send", done, len(done.values), txn)
        answered = (done.status == OK or txn is not None) and done.acks != 0
        reported = done.offsets if answered else None
        for i, value in enumerate(done.values):
            self.history._add(
                "records",
                kind=0,
                status=done.status,
                acks=done.acks,
                operation=operation,
                process=done.process,
                assignment=0,
                topic="t",
                partition=done.partition_id,
                partition_id=done.partition_id,
                position=i,
                offset=None if reported is None else reported[i],
                value=value,
                invoked_ns=done.invoked_ns,
                completed_ns=done.completed_ns,
                error=None if done.status == OK else "TimeoutError",
                transaction=txn,
                timestamp_ms=done.stamp_ms if reported is not None else done.invoked_ns // 1_000_000,
                log_append=self._log_append,
            )

    def poll(self, done: Poll) -> None:
        txn = None if done.transaction is None else done.transaction.number
        operation = self._operation_row("final_poll" if done.final else "poll", done, len(done.records), txn)
        for i, (partition_id, offset, entry) in enumerate(done.records):
            self.history._add(
                "records",
                kind=2 if done.final else 1,
                status=done.status,
                operation=operation,
                process=done.process,
                assignment=done.assignments[partition_id],
                topic="t",
                partition=partition_id,
                partition_id=partition_id,
                position=i,
                offset=offset,
                leader_epoch=entry.epoch,
                value=entry.value,
                invoked_ns=done.invoked_ns,
                completed_ns=done.completed_ns,
                replica=done.replica,
                timestamp_ms=entry.stamp_ms,
                log_append=self._log_append,
                transaction=txn,
            )

    def transaction(self, transaction: Txn) -> None:
        self.history._add(
            "transactions",
            transaction=transaction.number,
            process=transaction.process,
            transactional_id=transaction.transactional_id,
            invoked_ns=transaction.invoked_ns,
            completed_ns=transaction.completed_ns,
            outcome=transaction.outcome,
            group=transaction.group,
        )

    def event(self, **columns: Any) -> None:
        self.history._add("group_events", topic="t", **columns)

    def client(self, process: int, **columns: Any) -> None:
        self.history._add("processes", process=process, client=f"client-{process}", library="kafka-python", **columns)

    def cluster(self, partition_id: int, partition: Partition) -> None:
        history, end = self.history, len(partition.log)
        history._add(
            "partitions",
            partition_id=partition_id,
            topic="t",
            partition=partition_id,
            replicas=list(ISR),
            read_to_end=True,
            end_offset=end,
            log_start_offset=0,
            cleanup_policy="delete",
            last_stable_offset=end,
        )
        before: tuple[int, ...] | None = None
        epoch = -1
        starts: list[tuple[int, int]] = []
        for number, (leader, own_epoch, isr, t, log_end) in enumerate(partition.states):
            history._add(
                "partition_states",
                topic="t",
                partition=partition_id,
                time_ns=t,
                uncertainty_ns=0,
                exact=True,
                observer=-1,
                leader=leader,
                leader_epoch=own_epoch,
                partition_epoch=number,
                isr=list(isr),
                unclean=False,
                replicas=list(ISR),
                isr_before=None if before is None else list(before),
            )
            if own_epoch > epoch:
                starts.append((own_epoch, log_end))
                history._add(
                    "broker_events",
                    node=leader,
                    time_ns=t,
                    event="leadership_start",
                    topic="t",
                    partition=partition_id,
                    leader_epoch=own_epoch,
                    from_offset=log_end,
                )
            before, epoch = isr, own_epoch
        chain = ",".join(f"{own_epoch}:{start}" for own_epoch, start in starts)
        for node in ISR:
            history._add(
                "replica_snapshots",
                snapshot=3 * partition_id + node,
                node=node,
                time_ns=100 * SECOND,
                reason="end",
                topic="t",
                partition=partition_id,
                log_start_offset=0,
                high_watermark=end,
                log_end_offset=end,
                leader_epochs=chain,
            )
            for offset, entry in partition.readable(0, end, isolation=EVERYTHING):
                history._add(
                    "replica_log",
                    snapshot=3 * partition_id + node,
                    node=node,
                    topic="t",
                    partition=partition_id,
                    partition_id=partition_id,
                    offset=offset,
                    leader_epoch=entry.epoch,
                    value=entry.value,
                )


def number_steps(history: History) -> None:
    """`step` and `last` as the writer of a run folder sets them, from the order of the rows of each poll."""
    before: dict[tuple[int, int], dict[str, Any]] = {}
    for row in history.rows["records"]:
        if row["kind"] == 0:
            continue
        own = (row["operation"], row["partition_id"])
        earlier = before.get(own)
        row["offset_step"] = None if earlier is None else row["offset"] - earlier["offset"]
        row["last_of_poll"] = True
        if earlier is not None:
            earlier["last_of_poll"] = False
        before[own] = row
