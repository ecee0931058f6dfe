"""What only some clusters support: faults on packets, on the bits of a disk, on its free space; and Kafka requests to
one chosen broker, whether it leads or not. Tested for with isinstance.

A capability may still be missing on this machine (a kernel without netem). That is known once the cluster runs and
reported before any load: see `ReportsWhatIsMissing`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from harness.errors import UsageError
from harness.ports.cluster import Evidence, Link, NodeId, Send, TopicDefinition, TopicPartition
from harness.ports.own_names import OwnNames

Place = Literal["last", "middle", "unflushed"]


@dataclass(frozen=True, kw_only=True)
class Impairment:
    """What happens to packets, in each direction."""

    delay_ms: float = 0
    jitter_ms: float = 0
    loss_percent: float = 0
    duplicate_percent: float = 0
    reorder_percent: float = 0

    def __post_init__(self) -> None:
        for name in ("loss_percent", "duplicate_percent", "reorder_percent"):
            if not 0 <= getattr(self, name) <= 100:
                raise UsageError(f"{name} lies between 0 and 100, not {getattr(self, name):g}")
        if self.delay_ms < 0 or self.jitter_ms < 0:
            raise UsageError(f"a delay is not negative: {min(self.delay_ms, self.jitter_ms):g} ms")
        if (self.reorder_percent or self.jitter_ms) and not self.delay_ms:
            raise UsageError("reordering and jitter need a delay: packets overtake those that wait")

    @property
    def nothing(self) -> bool:
        return self == Impairment()

    def described(self) -> str:
        """For people: "lose 10 % of their packets, delay each by 20 ms"."""
        effects = []
        if self.loss_percent:
            effects.append(f"lose {self.loss_percent:g} % of their packets")
        if self.duplicate_percent:
            effects.append(f"send {self.duplicate_percent:g} % of their packets twice")
        if self.reorder_percent:
            effects.append(f"let {self.reorder_percent:g} % of their packets overtake others")
        if self.delay_ms:
            jitter = f" and up to {self.jitter_ms:g} ms more or less" if self.jitter_ms else ""
            effects.append(f"delay every packet by {self.delay_ms:g} ms{jitter}")
        return ", ".join(effects) or "pass packets as they come again"


@runtime_checkable
class CanImpairPackets(Protocol):
    # an empty one ends the impairment
    async def impair(self, links: Sequence[Link], impairment: Impairment) -> Evidence: ...


@runtime_checkable
class CanDamageDisks(Protocol):
    async def damage(self, node: NodeId, topic: str, partition: int, *, at: Place) -> Evidence:
        """Flips bits in one batch of a replica's log, on a stopped or running node; the batch's checksum is then
        invalid."""
        ...


@runtime_checkable
class CanFillDisks(Protocol):
    async def fill_disk(self, node: NodeId) -> Evidence: ...  # no byte is free afterwards

    async def free_disk(self, node: NodeId) -> Evidence: ...  # the filling file is removed


@runtime_checkable
class CanLoseUnsynced(Protocol):
    async def lose_unsynced(self, node: NodeId) -> Evidence:
        """Of a dead node's disk everything goes that no fsync has made safe: contents of files, and names."""
        ...


@runtime_checkable
class CanCrashAtWrites(Protocol):
    async def kill_at_write(self, node: NodeId, *, nth: int, torn: bool, within_s: float) -> Evidence:
        """Kills it before the nth change from now that it makes to its disk; torn: half of a write is there. Raises
        NothingToStrike if it makes none in that time."""
        ...


@runtime_checkable
class CanFailWrites(Protocol):
    async def fail_at_write(self, node: NodeId, *, nth: int, within_s: float) -> Evidence:
        """From the nth change on that it makes to its disk, all are refused (EIO), until it has ended of that. Raises
        NothingToStrike if it makes none in that time."""
        ...


@runtime_checkable
class ShowsHighWatermarks(Protocol):
    def high_watermarks(self, node: NodeId) -> Mapping[tuple[str, int], int]:
        """Of all partitions of a live or dead node, from its checkpoint file, which may be some seconds old."""
        ...


@runtime_checkable
class CanDeleteTopics(Protocol):
    async def delete_topic(self, topic: str) -> None: ...  # returns when the request was answered


@runtime_checkable
class SharedWithOthers(Protocol):
    """A cluster where a run has names of its own for what it makes, and where groups and ids may be somebody's."""

    @property
    def own_names(self) -> OwnNames: ...

    async def claim(self, *, groups: Sequence[str], transactional_ids: Sequence[str]) -> None:
        """Before the load uses them. Raises HarnessError if one of them is there already."""


@runtime_checkable
class TakesItsTime(Protocol):
    """A cluster that is acted on by means whose time somebody else decides."""

    @property
    def longest_act_s(self) -> float: ...  # an act is waited for at least so long, whatever a step says


@runtime_checkable
class ReportsWhatIsMissing(Protocol):
    def missing(self, need: type) -> str | None:
        """For a running cluster: why this machine does not support this capability; None: it does."""
        ...


@runtime_checkable
class CountsLinkFaults(Protocol):
    """Ends each fault on a link by itself: the link stays struck until the last of them is over. On other clusters the
    fault engine does not end what another fault still strikes."""

    def faults_on(self, link: Link) -> int: ...  # how many cuts, delays and impairments are in force there


# ---- questions to one broker ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """One broker's answer to one fetch."""

    error: int
    values: tuple[str, ...]


class Questions(Protocol):
    """Kafka requests to one chosen broker, whether it leads or not. Raises OSError or TimeoutError if it does not
    answer."""

    async def registered(self) -> Sequence[int]: ...  # the live brokers, as most brokers report them

    async def config_defaults(self, node: NodeId, keys: Sequence[str]) -> Mapping[str, str | None]: ...

    async def configure_broker(self, node: NodeId, settings: Mapping[str, str]) -> int: ...

    async def create_topic(self, topic: TopicDefinition) -> int: ...

    async def fetch(
        self, node: NodeId, partition: TopicPartition, offset: int, *, epoch: int, version: int
    ) -> Fetched: ...

    async def epoch_end(self, node: NodeId, partition: TopicPartition, epoch: int) -> tuple[int, int]: ...

    async def produce(self, node: NodeId, records: Sequence[Send], *, acks: str, timeout_s: float) -> tuple[int, int]:
        """One batch, of one partition: (error, first offset). With acks=0 a TimeoutError is normal, and a
        ConnectionResetError is an answer too."""
        ...


@runtime_checkable
class AnswersQuestions(Protocol):
    def questions(self) -> Questions: ...
