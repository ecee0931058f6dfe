"""Kafka's own consumer in Java as a member of a group: its VerifiableConsumer, which polls and commits what it polled.

It tells of each poll before it commits it, so a commit that it did not tell of any more may have been made: its outcome
is unknown, as is that of one which failed, for it tells no type of the error. It tells neither the generation nor its
member's id, nor from which committed offset it began.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from harness.clients.java import shared_configuration
from harness.clients.java_program import JavaTools, Line, Program
from harness.clients.members import MAX_POLL_INTERVAL_MS
from harness.host.clock import Clock, SystemClock
from harness.ports.clients import ClientUse
from harness.ports.cluster import ReadRecord, TopicPartition
from harness.ports.load import WorkloadSpec
from harness.ports.membership import GroupEvent
from harness.ports.programs import Polled
from harness.ports.security import SecuritySpec

_TOOL = "VerifiableConsumer"


class _Place(msgspec.Struct, frozen=True):
    topic: str
    partition: int

    @property
    def ours(self) -> TopicPartition:
        return TopicPartition(topic=self.topic, partition=self.partition)


class _Offset(_Place, frozen=True):
    offset: int


class _Span(_Place, frozen=True):
    last: int = msgspec.field(name="maxOffset")


class _Assigned(msgspec.Struct, tag_field="name", tag="partitions_assigned", frozen=True):
    partitions: list[_Place]


class _Revoked(msgspec.Struct, tag_field="name", tag="partitions_revoked", frozen=True):
    partitions: list[_Place]


class _Record(msgspec.Struct, tag_field="name", tag="record_data", frozen=True):
    topic: str
    partition: int
    offset: int
    value: str | None


class _Consumed(msgspec.Struct, tag_field="name", tag="records_consumed", frozen=True):
    partitions: list[_Span]


class _Committed(msgspec.Struct, tag_field="name", tag="offsets_committed", frozen=True):
    offsets: list[_Offset]
    success: bool


class _Begun(msgspec.Struct, tag_field="name", tag="startup_complete", frozen=True):
    pass


class _AskedToEnd(msgspec.Struct, tag_field="name", tag="shutdown_requested", frozen=True):
    pass


class _Closed(msgspec.Struct, tag_field="name", tag="shutdown_complete", frozen=True):
    pass


_Said = _Assigned | _Revoked | _Record | _Consumed | _Committed | _Begun | _AskedToEnd | _Closed
_DECODER = msgspec.json.Decoder(_Said)
Told = Polled | GroupEvent


class JavaMember:
    """Implements harness.ports.programs.ReadsByItself."""

    def __init__(
        self,
        *,
        bootstrap: str,
        settings: WorkloadSpec,
        use: ClientUse,
        tools: JavaTools,
        security: SecuritySpec | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._settings = settings
        self._use = use
        self._tools = tools
        self._security = security
        self._clock = clock or SystemClock()
        self._program: Program | None = None
        self._heard = _Heard()

    @property
    def has_ended(self) -> bool:
        return self._program is not None and self._program.has_ended

    async def join(self, topics: Sequence[str]) -> None:
        assert len(topics) == 1, topics
        use = self._use
        assert use.group is not None, "a member's"
        classic = ["--session-timeout", str(use.session_timeout_ms)] if use.group_protocol == "classic" else []
        static = [] if use.group_instance_id is None else ["--group-instance-id", use.group_instance_id]
        self._program = await Program.started(
            self._tools,
            _TOOL,
            [
                *("--topic", topics[0], "--bootstrap-server", self._bootstrap, "--group-id", use.group, "--verbose"),
                *("--group-protocol", use.group_protocol, "--reset-policy", use.offset_reset, *classic, *static),
            ],
            configuration=self._configuration(),
            clock=self._clock,
        )

    def _configuration(self) -> Mapping[str, str]:
        use = self._use
        classic = {"heartbeat.interval.ms": str(max(100, use.session_timeout_ms // 6))}
        return {
            "isolation.level": use.isolation,
            "max.poll.interval.ms": str(MAX_POLL_INTERVAL_MS),
            "request.timeout.ms": str(max(self._settings.request_timeout_ms, 1000)),
            **(classic if use.group_protocol == "classic" else {}),
            **shared_configuration(self._security),
        }

    async def told(self, *, timeout_s: float) -> Sequence[Told]:
        """Raises HarnessError if it ended before it had begun."""
        assert self._program is not None, "it has joined"
        told = self._heard.all_of(await self._program.lines_within(timeout_s))
        if self._program.has_ended and not self._heard.begun and (code := await self._program.exit_code()) > 0:
            raise self._program.not_begun(code)
        return told

    def take(self) -> Sequence[Told]:
        if self._program is None:
            return []
        told = self._heard.all_of(self._program.take_lines())
        return [*told, *self._heard.left_open(self._clock.monotonic_ns())] if self._program.has_ended else told

    async def crash(self) -> None:
        if self._program is not None:
            self._program.kill()
            await self._program.close()

    async def close(self) -> None:
        if self._program is not None:
            self._program.ask_to_end()
            await self._program.close(within_s=self._settings.delivery_timeout_ms / 1000)


class _Heard:
    """What the program has printed, as what happened to it."""

    def __init__(self) -> None:
        self._records: list[ReadRecord] = []
        self._held: set[TopicPartition] = set()
        self._since_ns = 0  # nothing was polled before that but what was told
        self._committing: tuple[Mapping[TopicPartition, int], int] | None = None  # what, and not before when
        self.begun = False

    def all_of(self, lines: Sequence[Line]) -> list[Told]:
        return [told for line in lines if (told := self._one(line)) is not None]

    def _one(self, line: Line) -> Told | None:
        said = _DECODER.decode(line.text)
        match said:
            case _Begun():
                self.begun, self._since_ns = True, line.after_ns
            case _Assigned():
                return self._changed("assigned", {each.ours for each in said.partitions}, line)
            case _Revoked():
                return self._changed("revoked", {each.ours for each in said.partitions}, line)
            case _Record():
                value = (said.value or "").encode()
                self._records.append(
                    ReadRecord(topic=said.topic, partition=said.partition, offset=said.offset, epoch=None, value=value)
                )
            case _Consumed():
                self._committing = {each.ours: each.last + 1 for each in said.partitions}, line.after_ns
                return self._polled(line.seen_ns)
            case _Committed():
                return self._committed(said, line)
            case _:
                pass
        return None

    def _polled(self, end_ns: int) -> Polled | None:
        records, self._records = self._records, []
        return Polled(records=records, begin_ns=self._since_ns, end_ns=end_ns) if records else None

    def _committed(self, said: _Committed, line: Line) -> GroupEvent | None:
        begin_ns = self._since_ns if self._committing is None else self._committing[1]
        self._committing, self._since_ns = None, line.after_ns
        offsets = {each.ours: each.offset for each in said.offsets}
        if not offsets:
            return None
        return GroupEvent(
            event="committed",
            offsets=offsets,
            begin_ns=begin_ns,
            end_ns=line.seen_ns,
            status="ok" if said.success else "info",
            error=None if said.success else "OffsetsNotCommitted",
        )

    def _changed(
        self, event: Literal["assigned", "revoked"], partitions: set[TopicPartition], line: Line
    ) -> GroupEvent | None:
        if event == "revoked":
            partitions &= self._held  # it tells at its first join, too
        self._held = self._held | partitions if event == "assigned" else self._held - partitions
        if not partitions:
            return None
        places = sorted(partitions, key=lambda each: (each.topic, each.partition))
        return GroupEvent(event=event, offsets=dict.fromkeys(places), begin_ns=line.after_ns, end_ns=line.seen_ns)

    def left_open(self, now_ns: int) -> list[Told]:
        """Once it has ended: what it had got, and what it may have committed."""
        polled = self._polled(now_ns)
        committing, self._committing = self._committing, None
        open_commit = (
            []
            if committing is None or not committing[0]
            else [
                GroupEvent(
                    event="committed",
                    offsets=committing[0],
                    begin_ns=committing[1],
                    end_ns=now_ns,
                    status="info",
                    error="the program ended without telling",
                )
            ]
        )
        return [*([] if polled is None else [polled]), *open_commit]
