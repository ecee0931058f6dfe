"""Whether clients that begin anew get on at the end of a run: what came of it is in `progress`, beside the old ones'.

Asked is last of all, when everything that is judged has been read and collected: so the record that is written to each
partition is in no table of the run, no reader of the load is given it, and no member of the load's group is disturbed.
A partition has to answer acks=all, and its last stable offset has to pass the answered offset where the load had
transactions; a new member of the load's group, which commits nothing, has to be given each partition and a record of
it. What is not got is tried again, for as long as recovery may take; for a moment only where leaders or in-sync
replicas lack, or where the old members got everything, for whom a coordinator may lawfully make a new one wait.
"""

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from harness.controller.old_clients import QUIET_S, ProgressRows
from harness.history.schema.cluster_rows import AskedFor, AskOutcome, WhyNotAsked
from harness.host.clock import Clock
from harness.ports.clients import ClientUse
from harness.ports.cluster import Client, ClientMaker, Send, SendOutcome, TopicPartition
from harness.ports.load import WorkloadSpec
from harness.ports.membership import GroupClient

VALUE = b"kafka-chaos: is it written?"
KEY = b"kafka-chaos"  # a compacted topic takes no record without one
ATTEMPT_MS = 3000
STABLE_S = 5.0  # after the final read has waited for open transactions
PAUSE_S = 0.2
POLL_S = 0.2
POLL_RECORDS = 500


class AskingAnew:
    """`partitions`: those of the run; `inputs`: those that the load's group reads."""

    def __init__(
        self,
        *,
        rows: ProgressRows,
        clock: Clock,
        make_client: ClientMaker,
        bootstrap: str,
        settings: WorkloadSpec,
        partitions: Sequence[TopicPartition],
        inputs: Sequence[TopicPartition],
    ) -> None:
        self._rows = rows
        self._clock = clock
        self._make_client = make_client
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._inputs = inputs if settings.facts.group else ()
        self._facts = settings.facts
        self._settings = dataclasses.replace(
            settings,
            acks="all",
            idempotence=False,
            retries=0,
            linger_ms=0,
            request_timeout_ms=ATTEMPT_MS,
            delivery_timeout_ms=ATTEMPT_MS,
        )
        self._written: dict[TopicPartition, int] = {}
        self._all_written = asyncio.Event()

    async def ask(self, *, timeout_s: float) -> None:
        self._rows.begin()
        expects_all = self._rows.is_whole(self._partitions)
        deadline_ns = self._deadline_ns(timeout_s if expects_all else QUIET_S)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._writes(deadline_ns))
            if self._inputs:
                waits = expects_all and not self._rows.group_got_all
                group.create_task(self._joins(self._deadline_ns(timeout_s if waits else QUIET_S), waits=waits))
        if self._facts.outputs and self._written:
            await self._stable(self._deadline_ns(STABLE_S))

    def _deadline_ns(self, timeout_s: float) -> int:
        return self._clock.monotonic_ns() + int(timeout_s * 1e9)

    def _is_over(self, deadline_ns: int) -> bool:
        return self._clock.monotonic_ns() >= deadline_ns

    # -- a write ------------------------------------------

    async def _writes(self, deadline_ns: int) -> None:
        led = [each for each in self._partitions if self._rows.is_led(each)]
        apart = [[each] for each in self._partitions if each not in led]  # a client may wait for a leader
        await asyncio.gather(*(self._written_by(group, deadline_ns) for group in (led, *apart) if group))
        self._all_written.set()

    async def _written_by(self, partitions: Sequence[TopicPartition], deadline_ns: int) -> None:
        left: dict[TopicPartition, SendOutcome | None] = dict.fromkeys(partitions)
        while True:
            for partition, outcome in zip(list(left), await self._attempt(list(left)), strict=True):
                left[partition] = outcome
                if outcome is not None and outcome.status == "ok":
                    del left[partition]
                    self._note_written(partition, outcome)
            if not left or self._is_over(deadline_ns):
                break
            await asyncio.sleep(PAUSE_S)
        for partition, last in left.items():
            refused = last is not None and last.status == "fail"
            self._rows.write(
                "fresh",
                "write",
                (partition.topic, partition.partition),
                "refused" if refused else "unanswered",
                error=None if last is None else last.error,
                code=None if last is None else last.code,
            )

    async def _attempt(self, partitions: Sequence[TopicPartition]) -> Sequence[SendOutcome | None]:
        """None: the library gave no outcome at all."""
        records = [Send(topic=each.topic, partition=each.partition, value=VALUE, key=KEY) for each in partitions]
        client = self._make_client(bootstrap=self._bootstrap, settings=self._settings)
        try:
            return await client.send(records)
        except Exception:  # noqa: BLE001  # a library may raise anything: the next client tries again
            return [None] * len(records)
        finally:
            await _closed(client)

    def _note_written(self, partition: TopicPartition, outcome: SendOutcome) -> None:
        if outcome.offset is not None:
            self._written[partition] = outcome.offset
        self._rows.write(
            "fresh",
            "write",
            (partition.topic, partition.partition),
            "done",
            until_ns=outcome.end_ns,
            offset=outcome.offset,
        )

    # -- the last stable offset ---------------------------

    async def _stable(self, deadline_ns: int) -> None:
        self._rows.begin()
        passed: dict[TopicPartition, int] = {}
        while True:
            stable = await self._stable_offsets()
            passed |= stable
            lacking = [each for each, offset in self._written.items() if passed.get(each, -1) <= offset]
            if not lacking or self._is_over(deadline_ns):
                break
            await asyncio.sleep(PAUSE_S)
        for partition in self._written:
            outcome: AskOutcome = "unanswered" if partition in lacking else "done"
            place = (partition.topic, partition.partition)
            self._rows.write("fresh", "stable", place, outcome, offset=passed.get(partition))

    async def _stable_offsets(self) -> Mapping[TopicPartition, int]:
        use = ClientUse(role="consumer", isolation="read_committed")
        client = self._make_client(bootstrap=self._bootstrap, settings=self._settings, use=use)
        try:
            return await client.end_offsets(list(self._written))
        except Exception:  # noqa: BLE001  # not answered: it is asked again
            return {}
        finally:
            await _closed(client)

    # -- a member of the group ----------------------------

    async def _joins(self, deadline_ns: int, *, waits: bool) -> None:
        given: set[TopicPartition] = set()
        read: set[TopicPartition] = set()
        error: str | None = None
        is_supported = True
        while not self._has_all(given, read) and is_supported and not self._is_over(deadline_ns):
            client = self._member()
            is_supported = isinstance(client, GroupClient)
            try:
                if isinstance(client, GroupClient):
                    await self._polls(client, given, read, deadline_ns)
            except Exception as raised:  # noqa: BLE001  # a library may raise anything: the next client tries again
                error = type(raised).__name__
                await asyncio.sleep(PAUSE_S)
            finally:
                await _closed(client)
        await self._all_written.wait()
        for partition in self._inputs:
            place, group = (partition.topic, partition.partition), self._facts.group
            got: tuple[tuple[AskedFor, set[TopicPartition]], ...] = (("membership", given), ("read", read))
            for what, those in got:
                reason: WhyNotAsked | None = None
                if partition not in those:
                    is_empty = what == "read" and partition not in self._written
                    reason = "unsupported" if not is_supported else "nothing_new" if is_empty else reason
                    reason = reason or (None if waits else "not_waited_for")
                outcome: AskOutcome = "done" if partition in those else "unanswered" if reason is None else "not_asked"
                failed = error if outcome == "unanswered" else None
                self._rows.write("fresh", what, place, outcome, group=group, reason=reason, error=failed)

    def _member(self) -> Client:
        isolation: Literal["read_committed", "read_uncommitted"] = (
            "read_committed" if self._facts.outputs else "read_uncommitted"
        )
        use = ClientUse(
            role="consumer",
            group=self._facts.group,
            group_protocol=self._facts.group_protocol,
            isolation=isolation,
            offset_reset="earliest",
        )
        return self._make_client(bootstrap=self._bootstrap, settings=self._settings, use=use)

    async def _polls(
        self, client: GroupClient, given: set[TopicPartition], read: set[TopicPartition], deadline_ns: int
    ) -> None:
        await client.subscribe(sorted({each.topic for each in self._inputs}))
        while not self._has_all(given, read) and not self._is_over(deadline_ns):
            records = await client.poll(POLL_RECORDS, timeout_s=POLL_S)
            for event in client.rebalances():
                if event.event == "assigned":
                    given.update(event.offsets)
            read.update(TopicPartition(topic=each.topic, partition=each.partition) for each in records)

    def _has_all(self, given: set[TopicPartition], read: set[TopicPartition]) -> bool:
        wanted = {each for each in self._inputs if each in self._written}
        return self._all_written.is_set() and given >= set(self._inputs) and read >= wanted


async def _closed(client: Client) -> None:
    try:
        await client.close()
    except Exception:  # noqa: BLE001  # it has done what it was for
        return
