"""A coordinator whose clock and log the test moves: time passes, and records are replicated, when it says so."""

import itertools
from dataclasses import replace

from reference_impl.core.groups.coordinator import GroupCoordinator
from reference_impl.core.groups.group_data import (
    GroupSettings,
    Identity,
    JoinAnswer,
    JoinRequest,
    SyncAnswer,
    SyncRequest,
)
from reference_impl.core.groups.group_rules import GroupRules
from reference_impl.core.groups.offsets import Outcomes
from reference_impl.core.identifiers import ErrorCode, TopicPartition
from reference_impl.wire.group_records import CommittedOffset
from tests.reference_impl.core.coordinator_world import Clock, Log

GROUP, TOPIC = "readers", "orders"
PARTITION = TopicPartition(TOPIC, 0)
SESSION_MS, REBALANCE_MS = 10_000, 60_000
SETTINGS = GroupSettings(initial_rebalance_delay_ms=0)
SUBSCRIPTION = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x06orders" + b"\xff\xff\xff\xff"
RANGE = (("range", SUBSCRIPTION),)


class World:
    def __init__(
        self,
        *,
        settings: GroupSettings = SETTINGS,
        rules: GroupRules | None = None,
        log: Log | None = None,
        clock: Clock | None = None,
        load: bool = True,
    ) -> None:
        self.clock = clock or Clock()
        self.log = log or Log()
        self._settings, self._rules = settings, rules or GroupRules()
        numbers = itertools.count(1)
        self.coordinator = GroupCoordinator(
            self.log, clock=self.clock, settings=settings, rules=self._rules, new_id=lambda: f"id{next(numbers)}"
        )
        if load:
            self.load()

    def load(self) -> None:
        self.coordinator.replay(self.log.batches)
        self.coordinator.loaded()

    def successor(self, *, load: bool = True) -> "World":
        """The next coordinator, on a replica that has the whole log."""
        self.log.lose()
        self.coordinator.end()
        return World(
            settings=self._settings,
            rules=self._rules,
            log=Log(batches=list(self.log.batches)),
            clock=self.clock,
            load=load,
        )

    def passes(self, ms: float, *, step_ms: float = 50) -> None:
        """In steps, as the broker's timer comes; what is appended meanwhile is replicated."""
        end_ms = self.clock.passed_ms + ms
        while self.clock.passed_ms < end_ms:
            self.clock.passed_ms = min(self.clock.passed_ms + step_ms, end_ms)
            self.coordinator.tick()
            self.settle()

    def settle(self) -> None:
        if not self.log.holds:
            self.log.replicate()

    # Requests

    def join(self, member_id: str = "", **changes: object) -> list[JoinAnswer]:
        """Returns the list that the answer will be in."""
        answers: list[JoinAnswer] = []
        asked = JoinRequest(
            group_id=GROUP,
            member_id=member_id,
            instance_id=None,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=RANGE,
            needs_known_id=False,
            can_skip_assignment=True,
        )
        self.coordinator.join(replace(asked, **changes), answers.append)  # type: ignore[arg-type]
        self.settle()
        return answers

    def sync(self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None) -> list[SyncAnswer]:
        answers: list[SyncAnswer] = []
        asked = SyncRequest(
            group_id=GROUP,
            generation=generation,
            member_id=member_id,
            instance_id=None,
            protocol_type="consumer",
            protocol="range",
            assignments=assignments or {},
        )
        self.coordinator.sync(asked, answers.append)
        self.settle()
        return answers

    def heartbeat(self, member_id: str, generation: int) -> ErrorCode:
        return self.coordinator.heartbeat(GROUP, Identity(member_id=member_id, generation=generation))

    def leave(self, *member_ids: str) -> list[ErrorCode]:
        _, errors = self.coordinator.leave(GROUP, [Identity(member_id=each) for each in member_ids])
        self.settle()
        return errors

    def commit(
        self, offset: int, member_id: str = "", generation: int = -1, *, partition: TopicPartition = PARTITION
    ) -> list[ErrorCode]:
        answers: list[ErrorCode] = []

        def answered(outcomes: Outcomes) -> None:
            answers.append(outcomes[partition])

        identity = Identity(member_id=member_id, generation=generation)
        self.coordinator.commit(GROUP, identity, {partition: CommittedOffset(offset=offset)}, answered)
        self.settle()
        return answers

    def committed(self, partition: TopicPartition = PARTITION) -> int | ErrorCode:
        """The committed offset, -1 for none, or why it is not told."""
        fetched = self.coordinator.fetch(GROUP, [partition])
        if fetched.error is not ErrorCode.NONE:
            return fetched.error
        return fetched.offsets[partition].offset if partition in fetched.offsets else -1

    # What is needed often

    def alone(self) -> str:
        """A group of one member, with everything."""
        (joined,) = self.join()
        self.sync(joined.member_id, joined.generation, {joined.member_id: b"all"})
        return joined.member_id

    def pair(self) -> tuple[str, str]:
        """A group of two members, leader and other."""
        leader = self.alone()
        other = self.join()
        rejoined = self.join(leader)
        self.sync(other[0].member_id, rejoined[0].generation)
        self.sync(leader, rejoined[0].generation, {leader: b"0", other[0].member_id: b"1"})
        return leader, other[0].member_id

    @property
    def generation(self) -> int:
        return self.coordinator.groups[GROUP].generation

    @property
    def state(self) -> str:
        group = self.coordinator.groups.get(GROUP)
        return "Dead" if group is None else group.state.value


# What makes a group's offsets go.


def delete_group(world: World) -> None:
    world.coordinator.delete(GROUP, lambda error: None)


def delete_topic(world: World) -> None:
    world.coordinator.topics_deleted(frozenset({TOPIC}))


def remove_offset(world: World) -> None:
    world.coordinator.remove_offsets(GROUP, [PARTITION], lambda error, outcomes: None)


FORGETTING = (delete_group, delete_topic, remove_offset)
