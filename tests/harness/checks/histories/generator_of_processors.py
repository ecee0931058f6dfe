"""A simulated run whose processors read, write and send their offsets in transactions: sound by construction.

Processors of two transactional ids are members of one group. One may crash and leave its transaction open, or be taken
for dead and live on: its successor of the same id ends what it left, and whatever it still does is refused. Offsets
that were sent to a transaction hold once it has committed, and whoever asks for them waits until it has ended.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.history.facts.values import NAMED_FROM
from tests.harness.checks.histories.build import SECOND
from tests.harness.checks.histories.generator import TICK_NS, Simulation
from tests.harness.checks.histories.generator_rows import (
    COMMITTED_ONLY,
    FAIL,
    INFO,
    OK,
    Entry,
    Partition,
    Poll,
    Rows,
    Send,
    Txn,
)

PROCESSORS = "p"  # their group
_FIRST_PROCESSOR = 40
_NAMES = ("p-1", "p-2")
_LAST_MOMENT = 1_000 * SECOND


@dataclass
class Processor:
    """One client: its partitions, and what it has done in its open transaction so far."""

    process: int
    name: str
    position: dict[int, int] = field(default_factory=dict)
    assignment: dict[int, int] = field(default_factory=dict)
    generation: int = 0
    has_epoch: bool = False
    fenced: bool = False
    gone: bool = False  # nothing is heard of it any more
    transaction: Txn | None = None
    read: list[tuple[int, int]] = field(default_factory=list)  # partition, offset
    sent: Send | None = None
    offsets: list[dict[str, object]] = field(default_factory=list)


class Processing(Simulation):
    def __init__(self, chance: random.Random, *, ticks: int = 90) -> None:
        super().__init__(chance, ticks=ticks)

    def _prepare(self) -> None:
        self._transactional = False
        self._output = len(self.partitions)
        self.partitions.append(Partition())
        self.names: list[tuple[int, str]] = []
        self.processors: list[Processor] = []
        self._stored: dict[int, int] = {}
        self._members = 0  # the group's generation
        for name in _NAMES:
            self._join(name)

    def _acts(self) -> tuple[Callable[[], None], ...]:
        return (*super()._acts(), *(self._process,) * 16, self._trouble)

    # -- the group ----------------------------------------

    def _join(self, name: str) -> None:
        self.processors.append(Processor(process=_FIRST_PROCESSOR + len(self.processors), name=name))
        self._share_out()

    def _recorded(self, processor: Processor, event: str, partition_id: int, **columns: object) -> dict[str, object]:
        self.time_ns += 2
        self.events.append(
            {
                "process": processor.process,
                "event": event,
                "partition": partition_id,
                "status": OK,
                "invoked_ns": self.time_ns,
                "completed_ns": self.time_ns + 1,
                "group": PROCESSORS,
                "member": f"m{processor.process}",
                "generation": processor.generation,
                **columns,
            }
        )
        return self.events[-1]

    def _share_out(self) -> None:
        """Transactions that are open end first: nobody is told of an offset that may yet change."""
        for processor in list(self.processors):
            if processor.transaction is not None and not processor.fenced:
                self._end(processor, commit=bool(processor.offsets) and self._chance.random() < 0.5, replace=False)
        members = [processor for processor in self.processors if not (processor.fenced or processor.gone)]
        for processor in members:
            for partition_id in processor.position:
                self._recorded(processor, "revoked", partition_id)
            processor.position.clear()
        self._members += 1
        for partition_id in range(self._inputs):
            owner = self._chance.choice(members)
            owner.generation = self._members
            self._recorded(owner, "assigned", partition_id)
            self._recorded(owner, "fetched", partition_id, offset=self._stored.get(partition_id))
            owner.position[partition_id] = self._stored.get(partition_id, 0)
            owner.assignment[partition_id] = owner.assignment.get(partition_id, -1) + 1

    def _trouble(self) -> None:
        """A processor crashes, or is only taken for dead; the next client of its id joins."""
        living = [processor for processor in self.processors if not (processor.fenced or processor.gone)]
        if self._chance.random() < 0.5:
            return
        processor = self._chance.choice(living)
        if self._chance.random() < 0.5:
            self._vanish(processor)
        else:
            processor.fenced = True
            if processor.transaction is not None:
                self._settle(processor.transaction, committed=False)
        self._join(processor.name)

    def _vanish(self, processor: Processor) -> None:
        """Its transaction stays open to the end as far as anybody is told; the coordinator aborts it."""
        processor.gone = True
        if processor.transaction is not None:
            txn = processor.transaction
            self._settle(txn, committed=False)
            self._tell(processor, INFO)
            txn.completed_ns = _LAST_MOMENT

    # -- transactions -------------------------------------

    def _process(self) -> None:
        """One step of one processor."""
        living = [processor for processor in self.processors if not processor.gone and processor.position]
        if not living:
            return
        processor = self._chance.choice(living)
        if processor.transaction is None:
            self._begin(processor)
        elif not processor.read:
            self._read(processor, processor.transaction)
        elif processor.sent is None:
            self._write(processor, processor.transaction)
        elif not processor.offsets and not processor.fenced:
            for partition_id, offset in dict(processor.read).items():
                event = self._recorded(
                    processor,
                    "committed",
                    partition_id,
                    offset=offset + 1,
                    transaction=processor.transaction.number,
                    status=INFO,
                )
                processor.offsets.append(event)
        else:
            self._end(processor, commit=self._chance.random() < 0.8)

    def _begin(self, processor: Processor) -> None:
        processor.transaction = Txn(
            number=len(self.transactions),
            process=processor.process,
            invoked_ns=self.time_ns,
            transactional_id=processor.name,
            group=PROCESSORS,
        )
        self.transactions.append(processor.transaction)
        processor.read, processor.sent, processor.offsets = [], None, []
        if processor.has_epoch or processor.fenced:
            return
        if self._chance.random() < 0.1:  # it gets no epoch, and another client is tried
            self.time_ns += TICK_NS
            self._tell(processor, FAIL)
            processor.gone = True
            self._join(processor.name)
            return
        self.time_ns += TICK_NS
        processor.has_epoch = True

    def _read(self, processor: Processor, transaction: Txn) -> None:
        if not processor.position:
            return
        partition_id = self._chance.choice(list(processor.position))
        position = processor.position[partition_id]
        end = position + self._chance.randrange(1, 4)
        end = max(position, min(self.partitions[partition_id].stable_end(isolation=COMMITTED_ONLY), end))
        found = self.partitions[partition_id].readable(position, end, isolation=COMMITTED_ONLY)
        processor.position[partition_id] = end
        processor.read = [(partition_id, offset) for offset, _ in found]
        self.time_ns += TICK_NS
        self.polls.append(
            Poll(
                process=processor.process,
                invoked_ns=self.time_ns - TICK_NS // 2,
                completed_ns=self.time_ns,
                transaction=transaction,
                records=[(partition_id, offset, entry) for offset, entry in found],
                assignments=dict(processor.assignment),
            )
        )

    def _write(self, processor: Processor, transaction: Txn) -> None:
        values = []
        for partition_id, offset in processor.read:
            values.append(NAMED_FROM + len(self.names))
            self.names.append((values[-1], f"t-{partition_id}-{offset}/{processor.process}.{len(self.names)}"))
        send = Send(
            process=processor.process,
            partition_id=self._output,
            acks=-1,
            values=values,
            invoked_ns=self.time_ns,
            transaction=transaction,
        )
        if not processor.fenced:
            self._append(send)
        self.time_ns += TICK_NS
        send.completed_ns = self.time_ns
        transaction.sends.append(send)
        processor.sent = send
        self.sends.append(send)

    def _end(self, processor: Processor, *, commit: bool, replace: bool = True) -> None:
        """The answer may be lost, and then the processor is replaced; after an abort it goes back to where it began."""
        txn = processor.transaction
        assert txn is not None
        committed = commit and not processor.fenced
        unknown = (commit or processor.fenced) and self._chance.random() < 0.15
        self._settle(txn, committed=committed)
        self.time_ns += TICK_NS
        if committed:
            self._stored |= {int(str(event["partition"])): int(str(event["offset"])) for event in processor.offsets}
        self._tell(processor, INFO if unknown else OK if committed else FAIL)
        if processor.fenced:
            self._notice(processor)
        elif unknown:
            processor.gone = True
        elif not committed:
            for partition_id in {partition_id for partition_id, _ in processor.read}:
                processor.position[partition_id] = min(offset for _, offset in processor.read)
                self._recorded(processor, "seek", partition_id, offset=processor.position[partition_id])
                processor.assignment[partition_id] += 1
        if unknown and not processor.fenced and replace:
            self._join(processor.name)

    def _notice(self, processor: Processor) -> None:
        """It may understand only at the second attempt."""
        if self._chance.random() < 0.5:
            processor.gone = True
            for partition_id in processor.position:
                self._recorded(processor, "lost", partition_id)

    def _settle(self, transaction: Txn, *, committed: bool) -> None:
        if transaction.committed is not None:
            return  # others ended it before
        transaction.committed = committed
        for partition_id in sorted({send.partition_id for send in transaction.sends if send.offsets is not None}):
            self.partitions[partition_id].log.append(Entry(None, self.partitions[partition_id].epoch))

    def _tell(self, processor: Processor, outcome: int) -> None:
        txn = processor.transaction
        assert txn is not None
        txn.outcome, txn.completed_ns = outcome, self.time_ns
        for event in processor.offsets:
            event["status"] = outcome
        for send in txn.sends:
            send.status = outcome if send.offsets is not None else FAIL
        processor.transaction = None
        self.time_ns += 1

    # -- rows ---------------------------------------------

    def _finish(self) -> None:
        for processor in self.processors:
            if processor.transaction is not None:
                self._vanish(processor)
        super()._finish()

    def _describe(self, rows: Rows) -> None:
        super()._describe(rows)
        for value, text in self.names:
            rows.history._add("value_names", value=value, name=text)
        for processor in self.processors:
            rows.client(
                processor.process,
                role="both",
                acks=-1,
                idempotent=True,
                isolation=COMMITTED_ONLY,
                group=PROCESSORS,
                transactional_id=processor.name,
                offset_reset="earliest",
            )
