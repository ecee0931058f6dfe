"""A synthetic run of transactions, as history_writing.py makes one of sends and polls.

Five processes consume and produce: in every second transaction they poll what others committed, then send to two
partitions, and commit. A consumer of committed records follows beside them, with two polls under way.
Nothing in it is wrong: a reader sees what lies below the first open transaction, in the order of the log.
"""

import heapq
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np

from benchmarks.history_writing import PARTITIONS, TOPIC, Log, new_run, write_cluster
from harness.history.facts import values
from harness.history.journals.journal import (
    ACKS,
    Assigned,
    Begin,
    Declare,
    End,
    Invoke,
    JournalFile,
    Part,
    Process,
    Read,
    Sent,
)
from harness.host.clock import SystemClock

PROCESSES, CONSUMERS, SENDS, POLL = 5, 1, 2, 20
_STEP_NS = 400_000
_COMMITTED = 0
_FIRST_CONSUMER = 50

# What a process does next, and how long that takes: it is resumed when the time has passed.
_Steps: TypeAlias = Generator[int, None, None]


@dataclass(kw_only=True)
class _Cluster:
    """The logs as they grow. values: -1 is a marker. open: per transaction the first offset of it in each partition."""

    values: list[list[int]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    times_ns: list[list[int]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    open: list[dict[object, int]] = field(default_factory=lambda: [{} for _ in range(PARTITIONS)])
    now_ns: int = 10**9

    def append(self, partition: int, value: int, transaction: object) -> int:
        log = self.values[partition]
        self.open[partition].setdefault(transaction, len(log))
        log.append(value)
        self.times_ns[partition].append(self.now_ns)
        return len(log) - 1

    def commit(self, transaction: object) -> None:
        for partition, opened in enumerate(self.open):
            if transaction in opened:
                self.append(partition, -1, transaction)
                del opened[transaction]

    def read(self, partition: int, position: int) -> tuple[list[int], list[int], int]:
        """Offsets and values of committed records, and where the next poll goes on."""
        stable = min(self.open[partition].values(), default=len(self.values[partition]))
        until = min(stable, position + POLL)
        found = [(at, value) for at in range(position, until) if (value := self.values[partition][at]) >= 0]
        return [at for at, _ in found], [value for _, value in found], max(position, until)


class _Client:
    def __init__(self, journal: JournalFile, cluster: _Cluster, chance: np.random.Generator) -> None:
        self.journal, self.cluster, self.chance = journal, cluster, chance
        self.operation = 0
        self.positions: dict[int, int] = defaultdict(int)

    def write(self, line: Invoke | Sent | Read | Begin | End | Assigned) -> None:
        self.journal._write(line)

    def some_time(self) -> int:
        return int(self.chance.integers(_STEP_NS // 2, 2 * _STEP_NS))

    def poll(self, transaction: int | None) -> _Steps:
        partition = int(self.chance.integers(PARTITIONS))
        yield from self.poll_of(partition, transaction)

    def poll_of(self, partition: int, transaction: int | None) -> _Steps:
        self.operation += 1
        operation = self.operation
        self.write(Invoke(operation, "poll", self.cluster.now_ns, [], [], [], transaction))
        offsets, read, self.positions[partition] = self.cluster.read(partition, self.positions[partition])
        yield self.some_time()
        block = [Part(partition, offsets, [0], read, [])] if offsets else []
        self.write(Read(operation, self.cluster.now_ns, block, None))


class _Processor(_Client):
    def __init__(self, number: int, journal: JournalFile, cluster: _Cluster, chance: np.random.Generator) -> None:
        super().__init__(journal, cluster, chance)
        self.number = number
        self.sent = 0

    def transactions(self, count: int) -> _Steps:
        for transaction in range(1, count + 1):
            self.write(Begin(transaction, self.cluster.now_ns))
            if transaction % 2:
                yield from self.poll(transaction)
            for _ in range(SENDS):
                yield from self.send(transaction)
            yield self.some_time()
            self.cluster.commit((self.number, transaction))
            yield self.some_time()
            self.write(End(transaction, self.cluster.now_ns, _COMMITTED, None))
            yield self.some_time()

    def send(self, transaction: int) -> _Steps:
        self.operation += 1
        partition, value = int(self.chance.integers(PARTITIONS)), values.number(self.number, self.sent)
        self.sent += 1
        began = self.cluster.now_ns
        self.write(Invoke(self.operation, "send", began, [partition], [value], [], transaction))
        yield self.some_time()
        offset = self.cluster.append(partition, value, (self.number, transaction))
        yield self.some_time()
        now = self.cluster.now_ns
        self.write(Sent(self.operation, now, [0], [offset], [None], [began], [now], [], [now]))


class _Consumer(_Client):
    """Two tasks poll, each for half of the partitions, so that one's poll is asked for before the other's answer."""

    done = False

    def polls(self, partitions: range) -> _Steps:
        while not self.done:
            yield from self.poll_of(int(self.chance.choice(partitions)), None)
            yield 8 * self.some_time()


def write_transactions(folder: Path, transactions: int, *, seed: int = 1) -> None:
    """A run folder with so many transactions, all committed, and a final read of everything."""
    run = new_run(folder, seed=seed)
    cluster, chance = _Cluster(), np.random.default_rng(seed)
    processors = [
        _Processor(number, _journal(run.history, f"processor-{number}", number, "both"), cluster, chance)
        for number in range(PROCESSES)
    ]
    consumers = [
        _Consumer(_journal(run.history, f"consumer-{number}", number, "consumer"), cluster, chance)
        for number in range(_FIRST_CONSUMER, _FIRST_CONSUMER + CONSUMERS)
    ]
    for client in (*processors, *consumers):
        client.write(Assigned(cluster.now_ns, list(range(PARTITIONS))))
    _play(
        cluster,
        [processor.transactions(transactions // PROCESSES) for processor in processors],
        [consumer.polls(half) for consumer in consumers for half in (range(2), range(2, PARTITIONS))],
        consumers,
    )
    logs = [_log(cluster, partition) for partition in range(PARTITIONS)]
    reader = _Client(_journal(run.history, "final-read", 90, "consumer"), cluster, chance)
    _read_to_the_end(reader, logs)
    for client in (*processors, *consumers, reader):
        client.journal.close()
    write_cluster(run, logs)
    run.update(status="complete")


def _play(cluster: _Cluster, producing: list[_Steps], reading: list[_Steps], consumers: list[_Consumer]) -> None:
    due = [(cluster.now_ns + place, place, steps) for place, steps in enumerate([*producing, *reading])]
    heapq.heapify(due)
    left = len(producing)
    while due:
        cluster.now_ns, place, steps = heapq.heappop(due)
        waits_ns = next(steps, None)
        if waits_ns is not None:
            heapq.heappush(due, (cluster.now_ns + waits_ns, place, steps))
        elif place < len(producing):
            left -= 1
            for consumer in consumers:
                consumer.done = left == 0


def _log(cluster: _Cluster, partition: int) -> Log:
    """Without the markers, whose offsets nobody reads."""
    kept = np.flatnonzero(np.array(cluster.values[partition]) >= 0)
    return Log(
        partition=partition,
        offsets=kept,
        end=len(cluster.values[partition]),
        values=np.array(cluster.values[partition], np.int64)[kept],
        time_ns=np.array(cluster.times_ns[partition], np.int64)[kept],
    )


def _read_to_the_end(reader: _Client, logs: list[Log]) -> None:
    reader.write(Assigned(reader.cluster.now_ns, list(range(PARTITIONS))))
    for log in logs:
        reader.operation += 1
        reader.cluster.now_ns += _STEP_NS
        reader.write(Invoke(reader.operation, "final_poll", reader.cluster.now_ns, [], [], []))
        reader.cluster.now_ns += _STEP_NS
        block = Part(log.partition, log.offsets.tolist(), [0], log.values.tolist(), [])
        reader.write(Read(reader.operation, reader.cluster.now_ns, [block], None))


def _journal(history: Path, name: str, process: int, role: str) -> JournalFile:
    journal = JournalFile(history / f"{name}.jsonl", worker=name, clock=SystemClock())
    transactional_id = f"tx-{process}" if role == "both" else None
    journal._write(
        Process(
            process,
            name,
            ACKS["all"],
            1,
            None,
            role=role,
            idempotent=role == "both" or None,
            isolation="read_committed",
            transactional_id=transactional_id,
        )
    )
    for part in range(PARTITIONS):
        journal._write(Declare(part, TOPIC, part))
    return journal
