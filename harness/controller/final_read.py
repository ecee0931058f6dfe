"""The final read: every partition from the beginning to the end offset that its leader returns, by fresh clients.

A client that fails or stalls is replaced until the time is up. A partition that was not read to its end is reported,
and never counts as read. An end below what was acknowledged, read, or lies below a replica's own high watermark is not
believed: the read goes on, and what is missing then is fetched once more after a while (reading.py). The answers, and
what came of asking again, are in the table final_reads. Optionally every replica is read too, after it became leader
because the others were stopped.

If the load has transactions, the final log is what read_committed reads, up to the end offset that read_uncommitted
got; its reads are journalled as polls of a separate reader. A group's committed offsets are fetched as well.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.controller.answered_ends import AnsweredEnds
from harness.controller.context import RunContext
from harness.controller.reading import Beyond, Reading, ReadingAgain, read_to_end
from harness.errors import HarnessError
from harness.history.facts.offset_ranges import OffsetRanges
from harness.history.journals.journal import JournalFile, ProcessNumbers
from harness.history.journals.known_offsets import known_offsets
from harness.ports.capabilities import ShowsHighWatermarks
from harness.ports.clients import ClientUse
from harness.ports.cluster import CanStop, Client, ClientMaker, NodeId, ReadRecord, ShowsLogs, TopicPartition
from harness.ports.membership import GroupClient

LEADER_S = 20.0
ASK_AGAIN_S = 0.5
PLAIN = ClientUse(role="consumer")
COMMITTED = ClientUse(role="consumer", isolation="read_committed")


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
        self._use = COMMITTED if context.scenario.workload.facts.outputs else PLAIN
        self._starts: dict[TopicPartition, int] = {}
        self._stable: dict[TopicPartition, int] = {}
        self._answered = AnsweredEnds(context.recorder)
        self._returned: dict[TopicPartition, OffsetRanges] = {}  # by the final log's reader

    async def read_all(self) -> list[str]:
        """Reads every partition. Returns one sentence for each that was not read to its end."""
        facts, partitions = self._context.scenario.workload.facts, list(self._layout)
        known = await asyncio.to_thread(self._known)
        beyond = await asyncio.to_thread(self._highest, known)
        watermarks: dict[TopicPartition, int] = {}
        if facts.outputs:
            with self._journal("final-read-uncommitted") as journal:
                watermarks, _ = await self._read(journal, partitions, replica=None, f="poll", use=PLAIN, beyond=beyond)
        with self._journal("final-read") as journal:
            ends, notes = await self._read(
                journal,
                partitions,
                replica=None,
                use=self._use,
                at_least=watermarks,
                beyond={} if facts.outputs else beyond,
            )
            await self._read_again(journal, known, list(ends))
        unread = []
        policies = {topic.name: topic.settings.get("cleanup.policy") for topic in self._context.scenario.topics}
        for partition, replicas in self._layout.items():
            done = partition in ends
            note = "" if done else notes.get(partition, "no leader answered")
            self._context.recorder.partition(
                topic=partition.topic,
                partition=partition.partition,
                replicas=replicas,
                read_to_end=done,
                end_offset=watermarks.get(partition, ends.get(partition)),
                note=note,
                log_start=self._starts.get(partition),
                last_stable_offset=self._stable.get(partition),
                cleanup_policy=policies.get(partition.topic),
            )
            if not done:
                unread.append(f"{partition.topic}/{partition.partition} could not be read to its end: {note}")
        if facts.group:
            unread.extend(await self._fetch_offsets(facts.group, [each for each in partitions if self._is_input(each)]))
        return unread

    def _known(self) -> Mapping[TopicPartition, OffsetRanges]:
        outputs = self._context.scenario.workload.facts.outputs
        known = known_offsets(self._folder, committed_only=bool(outputs))
        return {each: known[place] for each in self._layout if (place := (each.topic, each.partition)) in known}

    def _highest(self, known: Mapping[TopicPartition, OffsetRanges]) -> dict[TopicPartition, int]:
        """One above the highest offset at which a record is known to be, or to have been."""
        highest = {partition: offsets.end for partition, offsets in known.items()}
        cluster = self._context.cluster
        if not isinstance(cluster, ShowsHighWatermarks):
            return highest
        for broker in sorted({broker for replicas in self._layout.values() for broker in replicas}):
            try:
                marks = cluster.high_watermarks(NodeId(broker))
            except (HarnessError, OSError, ValueError):  # a file that is being replaced, or a disk that is gone
                marks = {}
            for partition, replicas in self._layout.items():
                if broker in replicas and (mark := marks.get((partition.topic, partition.partition), 0)):
                    highest[partition] = max(mark, highest.get(partition, 0))
        return highest

    async def _read_again(
        self, journal: JournalFile, known: Mapping[TopicPartition, OffsetRanges], ended: Sequence[TopicPartition]
    ) -> None:
        """Fetches what is known and was not returned, of partitions that were read to their ends."""
        context, nothing = self._context, OffsetRanges()
        missing = {
            partition: ranges
            for partition in ended
            if partition in known
            and (
                ranges := known[partition].without(
                    self._returned.get(partition, nothing), first=self._starts.get(partition, 0)
                )
            )
        }
        if not missing:
            return
        since_ns = context.clock.monotonic_ns()
        await asyncio.sleep(context.scenario.read_again_after_s)
        again = ReadingAgain(
            new_client=lambda: self._client(journal, self._use),
            journal=journal,
            recorder=context.recorder,
            clock=context.clock,
            since_ns=since_ns,
            deadline_ns=context.clock.monotonic_ns() + self._timeout_ns,
        )
        for partition, offsets in (await again.read(missing)).items():
            self._answered.reached({partition: offsets.end})

    def _client(self, journal: JournalFile, use: ClientUse, *, replica: int | None = None) -> Client:
        context = self._context
        journal.begin_process(self._numbers.next(), client=journal.worker, acks="all", replica=replica, use=use)
        return self._make_client(bootstrap=context.cluster.bootstrap(None), settings=context.scenario.workload, use=use)

    def _is_input(self, partition: TopicPartition) -> bool:
        workload = self._context.scenario.workload
        return partition.topic not in workload.facts.outputs and partition.topic in (
            workload.topics or (partition.topic,)
        )

    def _journal(self, name: str) -> "contextlib.closing[JournalFile]":
        return contextlib.closing(JournalFile(self._folder / f"{name}.jsonl", worker=name, clock=self._context.clock))

    async def _fetch_offsets(self, group: str, partitions: Sequence[TopicPartition]) -> list[str]:
        """Asks the group's coordinator for its offsets until it answers. Returns a sentence if it never does."""
        context = self._context
        use = ClientUse(role="consumer", group=group, isolation="read_committed")
        deadline_ns = context.clock.monotonic_ns() + self._timeout_ns
        with self._journal("final-offsets") as journal:
            client = self._client(journal, use)
            try:
                assert isinstance(client, GroupClient), client
                while True:
                    event = await client.committed(partitions)
                    journal.group_event(event)
                    if event.status == "ok":
                        return []
                    if context.clock.monotonic_ns() > deadline_ns:
                        return [f"the offsets of group {group} could not be fetched: {event.error}"]
                    await asyncio.sleep(ASK_AGAIN_S)
            finally:
                await client.close()

    async def _read(
        self,
        journal: JournalFile,
        partitions: Sequence[TopicPartition],
        *,
        replica: int | None,
        f: str = "final_poll",
        use: ClientUse,
        at_least: Mapping[TopicPartition, int] | None = None,
        beyond: Mapping[TopicPartition, int] | None = None,
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, str]]:
        """Returns the end offsets of partitions read to their end, and why the others were not.

        Reads first all together, then one by one, since a partition without a leader must not stop the others. Progress
        extends the time. `at_least`: a smaller end offset does not count yet (an open transaction holds readers back).
        `beyond`: where records are known to be, whatever end is answered.
        """
        clock = self._context.clock
        ends: dict[TopicPartition, int] = {}
        notes: dict[TopicPartition, str] = {}
        best: dict[TopicPartition, int] = {}
        deadline_ns = clock.monotonic_ns() + self._timeout_ns
        groups = [list(partitions)]
        while groups and clock.monotonic_ns() < deadline_ns:
            for group in groups:
                reading, problem = await self._once(
                    journal, group, replica=replica, deadline_ns=deadline_ns, f=f, use=use, beyond=beyond
                )
                for partition in group:
                    least = (at_least or {}).get(partition, 0)
                    if reading is not None and reading.done(partition) and reading.ends[partition] >= least:
                        ends[partition] = reading.ends[partition]
                        continue
                    notes[partition] = problem or _stopped(reading, partition)
                    reached = reading.next_offsets.get(partition, 0) if reading is not None else 0
                    if reached > best.get(partition, 0):
                        best[partition] = reached
                        deadline_ns = clock.monotonic_ns() + self._timeout_ns
            groups = [[partition] for partition in partitions if partition not in ends]
            if groups and at_least:
                await asyncio.sleep(ASK_AGAIN_S)
        return ends, notes

    async def _once(
        self,
        journal: JournalFile,
        partitions: Sequence[TopicPartition],
        *,
        replica: int | None,
        deadline_ns: int,
        f: str,
        use: ClientUse,
        beyond: Mapping[TopicPartition, int] | None,
    ) -> tuple[Reading | None, str | None]:
        context = self._context
        client = self._client(journal, use, replica=replica)
        try:
            reading = await read_to_end(
                client,
                journal,
                partitions,
                f=f,
                deadline_ns=deadline_ns,
                clock=context.clock,
                with_starts=f == "final_poll" and replica is None,
                beyond=self._beyond(journal, use, beyond) if replica is None else None,
                on_records=self._note_returned if f == "final_poll" and replica is None else None,
            )
            if replica is None:
                self._answered.reached(reading.next_offsets)
            for partition, start in reading.starts.items():
                self._starts[partition] = max(start, self._starts.get(partition, start))
            if use.isolation == "read_committed":
                self._stable |= reading.ends
        except Exception as error:  # noqa: BLE001  # a client library may raise anything: the next client tries again
            return None, f"{type(error).__name__}: {error}".rstrip(": ")
        finally:
            await client.close()
        return reading, None

    def _beyond(self, journal: JournalFile, use: ClientUse, known: Mapping[TopicPartition, int] | None) -> Beyond:
        """Only read_uncommitted is answered the log's end: the other one's may lawfully be lower."""
        committed = use.isolation == "read_committed"

        def answered(
            client: Client, ends: Mapping[TopicPartition, int], asked_ns: int, reached: Mapping[TopicPartition, int]
        ) -> None:
            now = self._context.clock.monotonic_ns()
            self._answered.answered(
                client,
                ends,
                event="stable" if committed else "end",
                process=journal.process,
                asked_ns=asked_ns,
                answered_ns=now,
                reached=reached,
            )

        return Beyond(known={} if committed else known or {}, answered=answered)

    def _note_returned(self, records: Sequence[ReadRecord]) -> None:
        for record in records:
            partition = TopicPartition(topic=record.topic, partition=record.partition)
            self._returned.setdefault(partition, OffsetRanges()).add((record.offset,))

    # -- every replica ------------------------------------

    async def read_every_replica(self) -> list[str]:
        """Lets each broker in turn run alone, and reads what it leads. Returns a sentence for each replica not counted.

        Rows carry the broker's id. A replica counts only if it was seen as leader and read to its log end.
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
        ends, problems = await self._read(journal, led, replica=int(broker), use=self._use)
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
        """Waits until all replicas are in sync; otherwise the next could lead with a short log (unclean election)."""
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
