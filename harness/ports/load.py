"""What every load has, whatever its workload: the settings of its clients, and the facts that others must know."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from harness.values import Acks, GroupProtocol, Seconds


@dataclass(frozen=True, kw_only=True)
class LoadFacts:
    """What other modules must know about a load. Its workload states it; it is never derived from the workload's name.

    clients: role -> number of clients; each is a separate process on its own link. group: the consumer group of the
    clients; its committed offsets are fetched after the run. session_timeout_ms, group_protocol: of its members.
    outputs: topics written only by transactions; if there is one, the final log is what read_committed reads.
    transactional_ids: of its clients.
    value_bytes: approximate length of a record's value. in_flight: the number of records, over all partitions, that a
    producer sends at once before it waits for all answers.
    """

    clients: Mapping[str, int] = field(default_factory=dict)
    group: str = ""
    session_timeout_ms: int = 0
    group_protocol: GroupProtocol = "classic"
    outputs: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    value_bytes: int = 32
    in_flight: int = 1


@dataclass(frozen=True, kw_only=True)
class WorkloadSpec:
    """The settings that every load has. Used directly it is the workload "none": only the probes of the steps use the
    cluster. A workload adds its own settings (harness/ports/workload.py)."""

    name: ClassVar[str] = "none"

    topics: tuple[str, ...] = ()  # empty: all topics
    duration_s: Seconds = 20.0  # a run with [[steps]] ends with the last step instead
    warm_up_s: Seconds = 1.0
    client: str = "kafka-python"
    stuck_after_s: Seconds = 10.0  # time without an acknowledgement on a healthy cluster
    # ---- settings of every client library
    acks: Acks = "all"
    idempotence: bool = True
    linger_ms: int = 0
    request_timeout_ms: int = 3000
    delivery_timeout_ms: int = 6000
    retries: int | None = None  # None: the client library's own default

    @property
    def facts(self) -> LoadFacts:
        return LoadFacts()

    def check(self, topics: Sequence[str]) -> None:
        """Raises ValueError, with the remedy, if these settings contradict each other or the scenario's topics."""

    @property
    def workers(self) -> int:
        """The number of clients."""
        return sum(self.facts.clients.values())

    @property
    def idempotent(self) -> bool:
        """Whether producers are idempotent: every library refuses that without acks=all, or without retries."""
        return self.idempotence and self.acks == "all" and self.retries != 0
