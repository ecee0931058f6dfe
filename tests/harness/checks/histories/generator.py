"""Simulates a replicated log and its clients, and tells what they saw: a history that is sound by construction.

Nothing here knows what an anomaly is. Producers send concurrently, alone or in transactions, get answers or none, and
records land or do not; leaders change hands cleanly; consumers poll, fail, seek, commit and hand partitions over; the
final read and the replicas' disks agree with the log. So whatever a check calls wrong in such a history is an error of
the check (generator_planters.py puts the faults in).
"""

import random
from collections.abc import Callable

from tests.harness.checks.histories.build import ISR, SECOND, History
from tests.harness.checks.histories.generator_rows import (
    COMMITTED_ONLY,
    EVERYTHING,
    FAIL,
    GROUP,
    INFO,
    OK,
    Consumer,
    Entry,
    Partition,
    Poll,
    Rows,
    Send,
    Txn,
    number_steps,
)

FINAL_READER = 99
_TRANSACTIONAL, _LAST_PRODUCER, _FIRST_CONSUMER = 6, 7, 8
TICK_NS = SECOND // 100


class Simulation:
    """A run of a few dozen ticks; `history()` gives its rows."""

    def __init__(self, chance: random.Random, *, ticks: int = 50) -> None:
        self._chance = chance
        self.time_ns = SECOND
        self.partitions = [Partition() for _ in range(chance.choice((1, 1, 2, 3)))]
        self._producers = range(1, 1 + chance.randrange(1, 4))
        self._acks = {process: chance.choice((-1, -1, -1, 1, 0)) for process in self._producers}
        self._consumers = [Consumer(_FIRST_CONSUMER + n) for n in range(chance.randrange(0, 3))]
        self._isolation = chance.choice((COMMITTED_ONLY, EVERYTHING))
        self.grouped = chance.random() < 0.5
        self._reset = chance.choice(("earliest", "earliest", "earliest", "latest"))
        self._tells_generation = chance.random() < 0.9
        self._log_append = chance.random() < 0.3
        self._transactional = chance.random() < 0.5
        self._in_flight: list[Send] = []
        self._late: list[Send] = []  # nobody waits for them any more, and yet they may land
        self._values = dict.fromkeys((*self._producers, _TRANSACTIONAL), 0)
        self._open: Txn | None = None
        self._generation = 0
        self._committed: dict[int, int] = {}
        self._inputs = len(self.partitions)  # those that producers write
        self.sends: list[Send] = []
        self.polls: list[Poll] = []
        self.transactions: list[Txn] = []
        self.events: list[dict[str, object]] = []
        self._prepare()
        for partition in self.partitions:
            partition.note(0)
        self._rebalance()
        acts = self._acts()
        for _ in range(ticks):
            self.time_ns += chance.randrange(1, 10) * TICK_NS
            chance.choice(acts)()
        self._finish()

    def _prepare(self) -> None:
        """What a run of another kind has beside."""

    def _acts(self) -> tuple[Callable[[], None], ...]:
        return (
            self._send,
            self._send,
            self._land,
            self._land,
            self._answer,
            self._answer,
            self._poll,
            self._poll,
            self._poll,
            self._disturb,
            self._commit,
            self._transact,
            self._transact,
        )

    # -- producers ----------------------------------------

    def _next_values(self, process: int, most: int) -> list[int]:
        first = self._values[process]
        self._values[process] += self._chance.randrange(1, most)
        return [(process << 40) | sequence for sequence in range(first, self._values[process])]

    def _send(self) -> None:
        process = self._chance.choice(self._producers)
        if sum(send.process == process for send in self._in_flight) < 2:
            partition_id = self._chance.randrange(self._inputs)
            values = self._next_values(process, 4)
            self._in_flight.append(
                Send(
                    process=process,
                    partition_id=partition_id,
                    acks=self._acks[process],
                    values=values,
                    invoked_ns=self.time_ns,
                )
            )

    def _land(self) -> None:
        """Requests of one producer land in the order in which they were sent; those of several as it happens."""
        waiting: dict[int, Send] = {}
        for send in self._in_flight:
            if send.offsets is None:
                waiting.setdefault(send.process, send)
        if self._late and self._chance.random() < 0.2:
            self._append(self._late.pop(self._chance.randrange(len(self._late))))
        elif waiting:
            self._append(self._chance.choice(list(waiting.values())))

    def _append(self, send: Send) -> None:
        partition = self.partitions[send.partition_id]
        send.offsets = []
        send.stamp_ms = (self.time_ns if self._log_append else send.invoked_ns) // 1_000_000
        for value in send.values:
            if self._chance.random() < 0.05:
                partition.log.append(Entry(None, partition.epoch))
            send.offsets.append(len(partition.log))
            partition.log.append(Entry(value, partition.epoch, send.stamp_ms, send.transaction))

    def _answer(self) -> None:
        """Answers come in the order of the requests; a request that never landed is refused or never answered."""
        waiting: dict[int, Send] = {}
        for send in self._in_flight:
            waiting.setdefault(send.process, send)
        if waiting:
            send = self._chance.choice(list(waiting.values()))
            self._in_flight.remove(send)
            self._complete(send)

    def _complete(self, send: Send) -> None:
        send.completed_ns = self.time_ns
        lost_answer = self._chance.random() < 0.2
        if send.offsets is not None:
            send.status = INFO if lost_answer else OK
        elif lost_answer:
            send.status = INFO
            self._late.append(send)
        else:
            send.status = OK if send.acks == 0 else FAIL  # acks=0: the client does not know what the broker did
        self.sends.append(send)

    # -- transactions -------------------------------------

    def _transact(self) -> None:
        if not self._transactional:
            return
        if self._open is None:
            self._open = Txn(number=len(self.transactions), process=_TRANSACTIONAL, invoked_ns=self.time_ns)
            self.transactions.append(self._open)
        elif not self._open.sends or self._chance.random() < 0.5:
            partition_id = self._chance.randrange(len(self.partitions))
            values = self._next_values(_TRANSACTIONAL, 3)
            send = Send(
                process=_TRANSACTIONAL,
                partition_id=partition_id,
                acks=-1,
                values=values,
                invoked_ns=self.time_ns,
                transaction=self._open,
            )
            self._append(send)
            self.time_ns += TICK_NS
            send.completed_ns = self.time_ns
            self._open.sends.append(send)
            self.sends.append(send)
        else:
            self._end_transaction(self._open)

    def _end_transaction(self, transaction: Txn) -> None:
        """The markers are written, and the producer is told, or is not."""
        transaction.committed = self._chance.random() < 0.6
        transaction.outcome = INFO if self._chance.random() < 0.25 else OK if transaction.committed else FAIL
        for partition_id in sorted({send.partition_id for send in transaction.sends}):
            self.partitions[partition_id].log.append(Entry(None, self.partitions[partition_id].epoch))
        for send in transaction.sends:
            send.status = transaction.outcome
        self.time_ns += TICK_NS
        transaction.completed_ns = self.time_ns
        self._open = None

    # -- consumers ----------------------------------------

    def _event(self, consumer: Consumer, event: str, partition_id: int, *, after: int = 0, **columns: object) -> None:
        fields = {
            "process": consumer.process,
            "event": event,
            "partition": partition_id,
            "status": OK,
            "invoked_ns": self.time_ns + after,
            "completed_ns": self.time_ns + after + 1,
        }
        if self.grouped:
            generation = consumer.generation if self._tells_generation else None
            fields |= {"group": GROUP, "member": f"m{consumer.process}", "generation": generation}
        self.events.append(fields | columns)

    def _rebalance(self) -> None:
        """Everything is given up and handed out anew: in a group from what is committed, else from where one likes."""
        if not self._consumers:
            return
        for consumer in self._consumers:
            for partition_id in list(consumer.position):
                if self.grouped and self._chance.random() < 0.5:
                    self._commit_position(consumer, partition_id)
                self._event(consumer, "lost" if consumer.deposed else "revoked", partition_id, after=10)
            consumer.position.clear()
            consumer.deposed = False
        self._generation += 1
        for partition_id in range(len(self.partitions)):
            self._assign(self._chance.choice(self._consumers), partition_id)

    def _assign(self, consumer: Consumer, partition_id: int) -> None:
        consumer.generation = self._generation
        if self.grouped:
            end = self.partitions[partition_id].stable_end(isolation=self._isolation)
            start = self._committed.get(partition_id, 0 if self._reset == "earliest" else end)
            self._event(consumer, "fetched", partition_id, after=20, offset=self._committed.get(partition_id))
            self._event(consumer, "assigned", partition_id, after=22)
        else:
            start = self._chance.randrange(len(self.partitions[partition_id].log) + 1)
            self._event(consumer, "assigned", partition_id, after=22, offset=start)
        self._place(consumer, partition_id, start)

    def _hand_over(self) -> None:
        """One partition changes hands; who had it gave it up, or is deposed, and goes on reading without knowing it."""
        owners = [consumer for consumer in self._consumers if consumer.position and not consumer.deposed]
        if len(self._consumers) < 2 or not owners or not self.grouped:
            return
        consumer = self._chance.choice(owners)
        others = [other for other in self._consumers if other is not consumer and not other.deposed]
        if not others:
            return
        given = [self._chance.choice(list(consumer.position))]
        if self._chance.random() < 0.5:
            consumer.deposed = True
            given = list(consumer.position)
        else:
            self._event(consumer, "revoked", given[0], after=10)
            del consumer.position[given[0]]
        self._generation += 1
        for partition_id in given:
            self._assign(self._chance.choice(others), partition_id)

    @staticmethod
    def _place(consumer: Consumer, partition_id: int, offset: int) -> None:
        consumer.assignment[partition_id] = consumer.assignment.get(partition_id, -1) + 1
        consumer.position[partition_id] = offset

    def _seek(self) -> None:
        owners = [consumer for consumer in self._consumers if consumer.position]
        if owners and (not self.grouped or self._chance.random() < 0.3):
            consumer = self._chance.choice(owners)
            partition_id = self._chance.choice(list(consumer.position))
            self._place(consumer, partition_id, self._chance.randrange(len(self.partitions[partition_id].log) + 1))
            self._event(consumer, "seek", partition_id, offset=consumer.position[partition_id])

    def _commit(self) -> None:
        owners = [consumer for consumer in self._consumers if consumer.position]
        if owners and self.grouped:
            consumer = self._chance.choice(owners)
            self._commit_position(consumer, self._chance.choice(list(consumer.position)))

    def _commit_position(self, consumer: Consumer, partition_id: int) -> None:
        """An answer that is lost says nothing on whether the offset was stored; a deposed member's is refused."""
        status = FAIL if consumer.deposed else self._chance.choice((OK, OK, OK, FAIL, INFO))
        if status == OK or (status == INFO and self._chance.random() < 0.5):
            self._committed[partition_id] = consumer.position[partition_id]
        self._event(consumer, "committed", partition_id, offset=consumer.position[partition_id], status=status)

    def _poll(self) -> None:
        if not self._consumers:
            return
        consumer = self._chance.choice(self._consumers)
        records, after = [], dict(consumer.position)
        for partition_id, position in consumer.position.items():
            partition = self.partitions[partition_id]
            stable = partition.stable_end(isolation=self._isolation)
            end = max(position, min(stable, position + self._chance.randrange(0, 6)))
            records += [
                (partition_id, offset, entry)
                for offset, entry in partition.readable(position, end, isolation=self._isolation)
            ]
            after[partition_id] = end
        status = self._chance.choice((OK,) * 8 + (FAIL, INFO))
        self.polls.append(
            Poll(
                process=consumer.process,
                invoked_ns=self.time_ns - TICK_NS // 2,
                completed_ns=self.time_ns,
                records=records,
                assignments=dict(consumer.assignment),
                status=status,
            )
        )
        if status == OK:
            consumer.position = after

    # -- the cluster --------------------------------------

    def _disturb(self) -> None:
        partition = self._chance.choice(self.partitions)
        act = self._chance.choice(("elect", "shrink", "expand", "seek", "rebalance", "hand over"))
        if act == "elect":
            partition.leader, partition.epoch = self._chance.choice(partition.isr), partition.epoch + 1
            partition.note(self.time_ns)
        elif act == "shrink" and len(partition.isr) > 1:
            gone = self._chance.choice([node for node in partition.isr if node != partition.leader])
            partition.isr = tuple(node for node in partition.isr if node != gone)
            partition.note(self.time_ns)
        elif act == "expand":
            partition.isr = ISR
            partition.note(self.time_ns)
        elif act == "seek":
            self._seek()
        elif act == "rebalance":
            self._rebalance()
        elif act == "hand over":
            self._hand_over()

    def _finish(self) -> None:
        """Every request gets its answer, one more is acknowledged by all, and then the logs are read back."""
        while self._in_flight:
            self.time_ns += TICK_NS
            self._answer()
        if self._open is not None:
            self._end_transaction(self._open)
        last = Send(
            process=_LAST_PRODUCER, partition_id=0, acks=-1, values=[_LAST_PRODUCER << 40], invoked_ns=self.time_ns
        )
        self._append(last)
        self.time_ns += TICK_NS
        last.completed_ns = self.time_ns
        self.sends.append(last)
        self.time_ns += SECOND
        for partition_id, partition in enumerate(self.partitions):
            at, end = 0, len(partition.log)
            while at < end:
                upto = min(end, at + self._chance.randrange(1, 12))
                self._read_finally(partition_id, at, upto)
                at = upto
            if self._chance.random() < 0.2:
                self._read_finally(partition_id, 0, end, replica=self._chance.choice(partition.isr))

    def _read_finally(self, partition_id: int, start: int, end: int, *, replica: int | None = None) -> None:
        self.time_ns += TICK_NS
        readable = self.partitions[partition_id].readable(start, end, isolation=COMMITTED_ONLY)
        reader = FINAL_READER if replica is None else FINAL_READER + 1 + replica
        self.polls.append(
            Poll(
                process=reader,
                invoked_ns=self.time_ns - TICK_NS // 2,
                completed_ns=self.time_ns,
                assignments={partition_id: 0},
                final=True,
                records=[(partition_id, offset, entry) for offset, entry in readable],
                replica=replica,
            )
        )

    # -- rows ---------------------------------------------

    def history(self, run: int) -> History:
        rows = Rows(run, log_append=self._log_append)
        completed: list[Send | Poll] = sorted([*self.sends, *self.polls], key=lambda done: done.completed_ns)
        for done in completed:
            if isinstance(done, Send):
                rows.send(done)
            else:
                rows.poll(done)
        for txn in self.transactions:
            rows.transaction(txn)
        for event in self.events:
            rows.event(**event)
        self._describe(rows)
        for partition_id, partition in enumerate(self.partitions):
            rows.cluster(partition_id, partition)
        number_steps(rows.history)
        return rows.history

    def _describe(self, rows: Rows) -> None:
        """The clients."""
        for process in {send.process for send in self.sends if send.process in self._values} | {_LAST_PRODUCER}:
            acks = self._acks.get(process, -1)
            name = "tx" if process == _TRANSACTIONAL else None
            rows.client(
                process, role="producer", acks=acks, idempotent=acks == -1, tells_attempts=True, transactional_id=name
            )
        for consumer in self._consumers:
            group = GROUP if self.grouped else None
            rows.client(
                consumer.process,
                role="consumer",
                isolation=self._isolation,
                group=group,
                offset_reset=self._reset if self.grouped else "earliest",
            )
        for process in {poll.process for poll in self.polls if poll.final}:
            rows.client(process, role="consumer", isolation=COMMITTED_ONLY, offset_reset="none")
