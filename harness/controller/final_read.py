"""The final read: every partition from the beginning to the end offset its leader answers, by fresh clients.

A client that fails or stalls is replaced until time is up. A partition that was not read to its end is said to be so,
never taken as read. Optionally every replica is read too, each made leader by stopping the others.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.controller.context import RunContext
from harness.controller.reading import Reading, read_to_end
from harness.errors import HarnessError
from harness.history.journal import JournalFile, ProcessNumbers
from harness.interfaces import CanStop, ClientMaker, NodeId, ShowsLogs, TopicPartition

LEADER_S = 20.0


class FinalRead:
    """One per run. `layout`: the replicas of each partition. Results go to the table `partitions`."""

    def __init__(
        self,
        *,
        context: RunContext,
        make_client: ClientMaker,
        numbers: ProcessNumbers,
        folder: Path,
        layout: Mapping[TopicPartition, Sequence[int]],
        timeout_s: float,
    ) -> None:
        self._context = context
        self._make_client = make_client
        self._numbers = numbers
        self._folder = folder
        self._layout = dict(layout)
        self._timeout_ns = int(timeout_s * 1e9)

    async def read_all(self) -> list[str]:
        """Reads every partition; returns one sentence for each that was not read to its end."""
        journal = JournalFile(self._folder / "final-read.jsonl", worker="final-read", clock=self._context.clock)
        try:
            ends, notes = await self._read(journal, list(self._layout), replica=None)
        finally:
            journal.close()
        unread = []
        for partition, replicas in self._layout.items():
            done = partition in ends
            note = "" if done else notes.get(partition, "no leader answered")
            self._context.recorder.partition(
                topic=partition.topic,
                partition=partition.partition,
                replicas=replicas,
                read_to_end=done,
                end_offset=ends.get(partition),
                note=note,
            )
            if not done:
                unread.append(f"{partition.topic}/{partition.partition} could not be read to its end: {note}")
        return unread

    async def _read(
        self, journal: JournalFile, partitions: Sequence[TopicPartition], *, replica: int | None
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, str]]:
        """End offsets of what was read to its end, and why the others were not. First all at once, then singly:

        one partition without a leader must not keep the others from being read. Progress extends the time.
        """
        clock = self._context.clock
        ends: dict[TopicPartition, int] = {}
        notes: dict[TopicPartition, str] = {}
        best: dict[TopicPartition, int] = {}
        deadline_ns = clock.monotonic_ns() + self._timeout_ns
        groups = [list(partitions)]
        while groups and clock.monotonic_ns() < deadline_ns:
            for group in groups:
                reading, problem = await self._once(journal, group, replica=replica, deadline_ns=deadline_ns)
                for partition in group:
                    if reading is not None and reading.done(partition):
                        ends[partition] = reading.ends[partition]
                        continue
                    notes[partition] = problem or _stopped(reading, partition)
                    reached = reading.next_offsets.get(partition, 0) if reading is not None else 0
                    if reached > best.get(partition, 0):
                        best[partition] = reached
                        deadline_ns = clock.monotonic_ns() + self._timeout_ns
            groups = [[partition] for partition in partitions if partition not in ends]
        return ends, notes

    async def _once(
        self, journal: JournalFile, partitions: Sequence[TopicPartition], *, replica: int | None, deadline_ns: int
    ) -> tuple[Reading | None, str | None]:
        context = self._context
        journal.begin_process(self._numbers.next(), client=journal.worker, acks="all", replica=replica)
        client = self._make_client(bootstrap=context.cluster.bootstrap(None), settings=context.scenario.workload)
        try:
            reading = await read_to_end(
                client, journal, partitions, f="final_poll", deadline_ns=deadline_ns, clock=context.clock
            )
        except Exception as error:  # noqa: BLE001  # whatever a client library raises: the next client tries again
            return None, f"{type(error).__name__}: {error}".rstrip(": ")
        finally:
            await client.close()
        return reading, None

    # -- every replica ------------------------------------

    async def read_every_replica(self) -> list[str]:
        """Makes each broker the only one running, in turn, and reads what it leads. Sentences on what did not count.

        Rows carry the broker's id. A replica counts only where it was seen as leader and read to its log end.
        """
        cluster = self._context.cluster
        if not isinstance(cluster, CanStop):
            return ["the replicas were not read one by one: this cluster's nodes cannot be stopped"]
        notes: list[str] = []
        for broker in sorted({broker for replicas in self._layout.values() for broker in replicas}):
            notes.extend(await self._read_replica(cluster, NodeId(broker)))
        return notes

    async def _read_replica(self, cluster: CanStop, broker: NodeId) -> list[str]:
        own = [partition for partition, replicas in self._layout.items() if broker in replicas]
        others = [
            node.node
            for node in self._context.cluster.nodes
            if node.role == "broker" and node.node != broker and cluster.is_running(node.node)
        ]
        clock = self._context.clock
        journal = JournalFile(self._folder / f"replica-{broker}.jsonl", worker=f"replica-{broker}", clock=clock)
        try:
            for node in others:
                await cluster.shut_down(node)
            return await self._read_alone(journal, broker, own)
        except HarnessError as error:
            return [f"replica {broker} was not read: {error}"]
        finally:
            journal.close()
            for node in others:
                if not cluster.is_running(node):
                    await cluster.start_node(node)
            await self._settle()

    async def _read_alone(self, journal: JournalFile, broker: NodeId, own: Sequence[TopicPartition]) -> list[str]:
        observer = self._context.observer

        def leads(partition: TopicPartition) -> bool:
            return observer.leader(partition.topic, partition.partition) == broker

        await observer.wait_until(lambda: all(leads(partition) for partition in own), timeout_s=LEADER_S)
        led = [partition for partition in own if leads(partition)]
        notes = [f"replica {broker} of {_name(each)} was not read: not leader" for each in own if each not in led]
        if not led:
            return notes
        ends, problems = await self._read(journal, led, replica=int(broker))
        for partition in led:
            if partition not in ends:
                notes.append(f"replica {broker} of {_name(partition)} was not read to its end: {problems[partition]}")
            elif (log_end := self._log_end(broker, partition)) is not None and ends[partition] < log_end:
                notes.append(
                    f"replica {broker} of {_name(partition)} was read to {ends[partition]}, its log ends at {log_end}"
                )
        return notes

    def _log_end(self, broker: NodeId, partition: TopicPartition) -> int | None:
        cluster = self._context.cluster
        if not isinstance(cluster, ShowsLogs):
            return None
        return cluster.log_end(broker, partition.topic, partition.partition)

    async def _settle(self) -> None:
        """All replicas in sync again, or the next one would lead with a short log by an unclean election."""
        observer = self._context.observer
        await observer.wait_until(
            lambda: all(
                set(observer.isr(partition.topic, partition.partition)) == set(replicas)
                for partition, replicas in self._layout.items()
            ),
            timeout_s=self._timeout_ns / 1e9,
        )


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}/{partition.partition}"


def _stopped(reading: Reading | None, partition: TopicPartition) -> str:
    if reading is None:
        return "no leader answered"
    return f"stopped at {reading.next_offsets.get(partition, 0)} of {reading.ends.get(partition, 0)}"
