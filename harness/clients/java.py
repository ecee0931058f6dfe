"""Kafka's own producer in Java, as its VerifiableProducer: a program that chooses what it sends and when.

Its values are `P.N`: P is the client's number in the run, N counts from 0. Every record has one of a few keys, in turn,
so that the partition of each is known beforehand, as the Java client's partitioner chooses it (murmur2 of the key). So
all that it may send is journalled before it starts, and what it does not tell of is unknown (info), never somebody
else's: also if its JVM was killed. When it ends by itself it says how many it has sent; the others were never sent.

It says when a record was answered and not when it was sent: each may have been sent as soon as the program began.
"""

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec
from kafka.partitioner.default import murmur2

from harness.clients import answers as common
from harness.clients.answers import Answers
from harness.clients.java_program import JavaTools, Line, Program
from harness.clients.outcomes import LibraryError, java_error_of, of_java
from harness.clients.secured import java_settings
from harness.errors import HarnessError
from harness.host.clock import Clock, SystemClock
from harness.ports.clients import READERS_OF
from harness.ports.cluster import Event, Send, SendOutcome, TopicPartition
from harness.ports.load import WorkloadSpec
from harness.ports.security import SecuritySpec

KAFKA = "4.3.1"  # the release whose tools are used
OLDEST_BROKERS = (2, 1)  # that its clients speak to
_TOOL = "VerifiableProducer"
_ACKS = {"0": "0", "1": "1", "all": "-1"}
_UNSENT = LibraryError(name="NeverSent", code=None)
_KILL_AFTER_S = 0.3  # beyond the delivery timeout


class _Acknowledged(msgspec.Struct, tag_field="name", tag="producer_send_success", frozen=True):
    value: str
    partition: int
    offset: int


class _Failed(msgspec.Struct, tag_field="name", tag="producer_send_error", frozen=True):
    value: str
    exception: str  # "class org.apache.kafka.common.errors.TimeoutException"


class _Begun(msgspec.Struct, tag_field="name", tag="startup_complete", frozen=True):
    pass


class _Closed(msgspec.Struct, tag_field="name", tag="shutdown_complete", frozen=True):
    pass


class _Sent(msgspec.Struct, tag_field="name", tag="tool_data", frozen=True):
    sent: int


_Said = _Acknowledged | _Failed | _Begun | _Closed | _Sent
_DECODER = msgspec.json.Decoder(_Said)


class JavaProducer:
    """Implements harness.ports.programs.SendsByItself."""

    def __init__(
        self,
        *,
        bootstrap: str,
        settings: WorkloadSpec,
        tools: JavaTools,
        security: SecuritySpec | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._settings = settings
        self._tools = tools
        self._security = security
        self._clock = clock or SystemClock()
        self._program: Program | None = None
        self._process = -1
        self._keys = 0

    def planned(self, partitions: Sequence[TopicPartition], *, process: int, records: int) -> Sequence[Send]:
        topics = {each.topic for each in partitions}
        assert len(topics) == 1, topics
        self._process, self._keys = process, _keys_for(len(partitions))
        topic = topics.pop()
        places = [_partition_of(key, len(partitions)) for key in range(self._keys)]
        return [
            Send(
                topic=topic,
                partition=places[number % self._keys],
                value=f"{process}.{number}".encode(),
                key=b"%d" % (number % self._keys),
            )
            for number in range(records)
        ]

    async def run(
        self, batches: Sequence[Sequence[Send]], *, records_per_second: float, until: Event
    ) -> AsyncIterator[tuple[int, Sequence[SendOutcome]]]:
        settings = self._settings
        answered = _Answered(batches, settings, self._clock)
        program = self._program = await Program.started(
            self._tools,
            _TOOL,
            [
                *("--topic", batches[0][0].topic, "--bootstrap-server", self._bootstrap),
                *("--max-messages", str(sum(map(len, batches))), "--acks", _ACKS[settings.acks]),
                *("--throughput", str(max(1, round(records_per_second)))),
                *("--value-prefix", str(self._process), "--repeating-keys", str(self._keys)),
            ],
            configuration=self._configuration(),
            clock=self._clock,
        )
        program.end_when(until, within_s=settings.delivery_timeout_ms / 1000 + _KILL_AFTER_S)
        async for line in program.lines():
            if (batch := answered.hear(line)) is not None:
                yield batch, answered.outcomes(batch)
        exit_code = await program.exit_code()
        if not answered.begun and exit_code > 0 and not until.is_set():
            raise program.not_begun(exit_code)
        for batch in answered.end():
            yield batch, answered.outcomes(batch)

    def _configuration(self) -> Mapping[str, str]:
        settings = self._settings
        retries = {} if settings.retries is None else {"retries": str(settings.retries)}
        return {
            "retries": str(2**31 - 1),  # the tool itself would set none
            **retries,
            "enable.idempotence": str(settings.idempotent).lower(),
            "linger.ms": str(settings.linger_ms),
            "request.timeout.ms": str(settings.request_timeout_ms),
            # The library refuses one that is shorter than the two together.
            "delivery.timeout.ms": str(
                max(settings.delivery_timeout_ms, settings.linger_ms + settings.request_timeout_ms)
            ),
            "max.block.ms": str(common.MAX_BLOCK_MS),
            **shared_configuration(self._security),
        }

    async def close(self) -> None:
        program, self._program = self._program, None
        if program is not None:
            await program.close()


class _Answered:
    """What the program has told of the records that were planned."""

    def __init__(self, batches: Sequence[Sequence[Send]], settings: WorkloadSpec, clock: Clock) -> None:
        self._retried = settings.retries != 0
        self._answers = [Answers(batch, acks=settings.acks, retried=self._retried, clock=clock) for batch in batches]
        self._open = set(range(len(batches)))
        self._places = {
            record.value.decode(): (number, place, record.partition)
            for number, batch in enumerate(batches)
            for place, record in enumerate(batch)
        }
        self._sent: int | None = None
        self.begun = False

    def hear(self, line: Line) -> int | None:
        """The number of the batch that is answered by it. Raises HarnessError for what was not planned."""
        said = _DECODER.decode(line.text)
        self.begun = True
        match said:
            case _Acknowledged():
                number, place, partition = self._place(said.value)
                if said.partition != partition:
                    what = f"Java's producer has sent {said.value} to partition {said.partition}, not to {partition}"
                    raise HarnessError(f"{what}: a load of client 'java' needs topics that keep their partitions")
                self._answers[number].delivered(place, said.offset)
            case _Failed():
                number, place, _ = self._place(said.value)
                error = java_error_of(said.exception)
                self._answers[number].told(place, of_java(error, retried=self._retried), error)
            case _Sent():
                self._sent = said.sent
                return None
            case _:
                return None
        return self._closed(number)

    def _place(self, value: str) -> tuple[int, int, int]:
        if value not in self._places:
            raise HarnessError(f"Java's producer has sent {value[:100]!r}, which was not planned")
        return self._places[value]

    def _closed(self, number: int) -> int | None:
        if number in self._open and self._answers[number].complete:
            self._open.remove(number)
            return number
        return None

    def end(self) -> Sequence[int]:
        """Of a program that has ended: the numbers of the other batches."""
        if self._sent is not None:
            for number, place, _ in list(self._places.values())[self._sent :]:
                self._answers[number].told(place, "fail", _UNSENT)
        return sorted(self._open)

    def outcomes(self, number: int) -> Sequence[SendOutcome]:
        return self._answers[number].outcomes(missing="the program ended without telling")


def shared_configuration(security: SecuritySpec | None) -> Mapping[str, str]:
    """Of each of the tools' clients."""
    return {
        "metadata.max.age.ms": str(common.METADATA_MAX_AGE_MS),
        "reconnect.backoff.ms": str(common.RECONNECT_MS),
        "reconnect.backoff.max.ms": str(common.RECONNECT_MAX_MS),
        **java_settings(security),
    }


def _partition_of(key: int, partitions: int) -> int:
    return int(murmur2(b"%d" % key) & 0x7FFFFFFF) % partitions


def _keys_for(partitions: int) -> int:
    """The least number of keys, from 0 on, that go to every partition."""
    missing = set(range(partitions))
    keys = 0
    while missing:
        missing.discard(_partition_of(keys, partitions))
        keys += 1
    return keys


def limits(settings: WorkloadSpec) -> list[str]:
    return [
        "keys and values are the program's own",
        "a producer is not replaced after an unknown outcome",
        f"readers without a group are {READERS_OF[settings.client]}'s",
    ]
