"""A client that asks a broker once: what a probe needs where the library under the load always retries."""

import asyncio
from collections.abc import Sequence
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from harness.clients.aio import AioClient
from harness.clients.outcomes import of_code
from harness.cluster.broker_requests import BrokerConnection
from harness.cluster.questions import BrokerQuestions
from harness.history.facts.error_codes import error_code
from harness.host.clock import Clock
from harness.ports.clients import ClientEvent
from harness.ports.cluster import NodeId, Send, SendOutcome, TopicPartition
from harness.ports.load import WorkloadSpec

_LOOK_S = 0.5
_AGAIN_S = 0.05
_METADATA_VERSION = 9
_Addresses = dict[NodeId, tuple[str, int]]


class OneTryClient(AioClient):
    """It waits until a broker names a leader, and sends the records of each partition to it, once, as one batch."""

    tells_attempts = False

    def __init__(self, *, bootstrap: str, settings: WorkloadSpec, clock: Clock, **more: Any) -> None:
        super().__init__(bootstrap=bootstrap, settings=settings, clock=clock, **more)
        self._bootstrap = [
            (host, int(port)) for host, _, port in (each.rpartition(":") for each in bootstrap.split(","))
        ]

    def take_events(self) -> Sequence[ClientEvent]:
        return ()

    async def send(self, records: Sequence[Send]) -> Sequence[SendOutcome]:
        by_partition: dict[TopicPartition, list[int]] = {}
        for place, record in enumerate(records):
            by_partition.setdefault(TopicPartition(topic=record.topic, partition=record.partition), []).append(place)
        answers = await asyncio.gather(
            *(self._once(each, [records[place] for place in places]) for each, places in by_partition.items())
        )
        outcomes: dict[int, SendOutcome] = {}
        for places, answered in zip(by_partition.values(), answers, strict=True):
            outcomes |= zip(places, answered, strict=True)
        return [outcomes[place] for place in range(len(records))]

    async def _once(self, partition: TopicPartition, records: Sequence[Send]) -> Sequence[SendOutcome]:
        settings, clock = self._settings, self._clock
        begin_ns = clock.monotonic_ns()
        status, code, base, error = "info", None, 0, "no leader is named in time"
        try:
            async with asyncio.timeout(settings.delivery_timeout_ms / 1000):
                leader, addresses = await self._leader(partition)
                error = "no answer in time"
                brokers = BrokerQuestions(addresses, is_running=lambda node: True, clock=clock)
                code, base = await brokers.produce(
                    leader, records, acks=settings.acks, timeout_s=settings.request_timeout_ms / 1000
                )
                status = of_code(code, retried=False)
                error = "" if code == 0 else str(error_code(code))
        except TimeoutError:
            status = "info" if code is None else status
        except OSError as broken:
            error = f"{type(broken).__name__}: {broken}"
        return [
            SendOutcome(
                status=status,  # type: ignore[arg-type]
                offset=base + place if status == "ok" else None,
                error=error or None,
                code=code,
                begin_ns=begin_ns,
                end_ns=clock.monotonic_ns(),
            )
            for place in range(len(records))
        ]

    async def _leader(self, partition: TopicPartition) -> tuple[NodeId, _Addresses]:
        while True:
            for address in self._bootstrap:
                found = await self._leader_answered_by(address, partition)
                if found is not None:
                    return found
            await asyncio.sleep(_AGAIN_S)

    async def _leader_answered_by(
        self, address: tuple[str, int], partition: TopicPartition
    ) -> tuple[NodeId, _Addresses] | None:
        kinds = MetadataRequest
        request = kinds(topics=[kinds.MetadataRequestTopic(name=partition.topic)], allow_auto_topic_creation=False)
        connection = BrokerConnection(*address)
        try:
            answer = await connection.ask(request, _METADATA_VERSION, timeout_s=_LOOK_S)
        except (OSError, TimeoutError):
            return None
        finally:
            connection.close()
        addresses = {NodeId(each.node_id): (each.host, each.port) for each in answer.brokers}
        leaders = [
            NodeId(each.leader_id)
            for topic in answer.topics
            for each in topic.partitions
            if each.partition_index == partition.partition
        ]
        return (leaders[0], addresses) if leaders and leaders[0] in addresses else None
