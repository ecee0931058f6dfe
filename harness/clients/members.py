"""What members of groups and transactional producers have in common, whichever library they use: the group's events as
they were heard, what an answer to a commit leaves open, and how a transaction ended.

As in Jepsen's client for Redpanda: without a commit request it did not commit, and an abort that succeeds is certain.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from harness.clients.outcomes import library_error_of
from harness.host.clock import Clock
from harness.ports.clients import ClientUse
from harness.ports.cluster import TopicPartition
from harness.ports.membership import GroupEvent, TransactionEnd

RETRY_BACKOFF_MS = 100
MAX_POLL_INTERVAL_MS = 15_000  # a rebalance waits this long for a member that hangs
# The coordinator refused the commit, or the member knew that it is no longer one.
_REFUSED = frozenset(
    {
        "CommitFailedError",
        "FencedInstanceIdError",
        "GroupAuthorizationFailedError",
        "IllegalGenerationError",
        "IllegalStateError",
        "InvalidCommitOffsetSizeError",
        "OffsetMetadataTooLargeError",
        "RebalanceInProgressError",
        "UnknownMemberIdError",
        # librdkafka's names of the brokers' errors
        "FENCED_INSTANCE_ID",
        "GROUP_AUTHORIZATION_FAILED",
        "ILLEGAL_GENERATION",
        "INVALID_COMMIT_OFFSET_SIZE",
        "OFFSET_METADATA_TOO_LARGE",
        "REBALANCE_IN_PROGRESS",
        "UNKNOWN_MEMBER_ID",
    }
)
Asked = Literal["committed", "fetched", "seek"]
Offsets = Mapping[TopicPartition, int | None]


def consumer_settings(use: ClientUse) -> dict[str, Any]:
    """Of a member; the libraries in Python have the same names for them."""
    return {
        "group_id": use.group,
        "session_timeout_ms": use.session_timeout_ms,
        "heartbeat_interval_ms": max(100, use.session_timeout_ms // 6),
        "max_poll_interval_ms": MAX_POLL_INTERVAL_MS,
        "retry_backoff_ms": RETRY_BACKOFF_MS,
        **({} if use.group_instance_id is None else {"group_instance_id": use.group_instance_id}),
    }


def producer_settings(use: ClientUse) -> dict[str, Any]:
    if use.transactional_id is None:
        return {}
    return {"transactional_id": use.transactional_id, "transaction_timeout_ms": use.transaction_timeout_ms}


class Listener:
    """Receives rebalances. `membership`: the generation and the member's id during the callback. `forget`: whatever the
    library cached of earlier generations."""

    def __init__(
        self, membership: Callable[[], tuple[int, str]], clock: Clock, forget: Callable[[], object] = lambda: None
    ) -> None:
        self._membership = membership
        self._clock = clock
        self._forget = forget
        self._heard: deque[GroupEvent] = deque()
        self._held: set[tuple[str, int]] = set()
        self.generation: int | None = None
        self.member: str | None = None
        self.assigned = 0  # how often

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._forget()
        self.generation, self.member = self._membership()
        self.assigned += 1
        self._hear("assigned", assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._hear("revoked", revoked)

    def on_partitions_lost(self, lost: Any) -> None:
        self._hear("lost", lost)

    def _hear(self, event: Literal["assigned", "revoked", "lost"], partitions: Any) -> None:
        now = self._clock.monotonic_ns()
        places = sorted((each.topic, each.partition) for each in partitions)
        if event == "assigned":
            self._held |= set(places)
        else:
            # A library reports partitions again that it gave up when it must rejoin, and nothing at a first join.
            places = [place for place in places if place in self._held]
            self._held -= set(places)
            if not places:
                return
        offsets: dict[TopicPartition, int | None] = {
            TopicPartition(topic=topic, partition=part): None for topic, part in places
        }
        self._heard.append(
            GroupEvent(
                event=event, offsets=offsets, begin_ns=now, end_ns=now, generation=self.generation, member=self.member
            )
        )

    def take(self) -> list[GroupEvent]:
        taken = []
        while self._heard:
            taken.append(self._heard.popleft())
        return taken


async def asked(
    event: Asked,
    offsets: Offsets,
    call: Callable[[], Awaitable[Offsets | None]],
    *,
    clock: Clock,
    listener: Listener | None,
    stable: Callable[[], bool | None] = lambda: None,
) -> GroupEvent:
    """What the call came to. `stable`: whether a fetch asked for stable offsets, once it was answered."""
    begin_ns = clock.monotonic_ns()
    status: Literal["ok", "fail", "info"] = "ok"
    error_text: str | None = None
    try:
        answered = await call()
        offsets = offsets if answered is None else answered
    except Exception as error:  # noqa: BLE001  # whatever a library raises is the event's outcome
        error_text = str(library_error_of(error))
        is_certain = event != "committed" or _refused_at_once(error, clock.monotonic_ns() - begin_ns)
        status = "fail" if is_certain else "info"
    return GroupEvent(
        event=event,
        offsets=offsets,
        begin_ns=begin_ns,
        end_ns=clock.monotonic_ns(),
        status=status,
        error=error_text,
        generation=None if listener is None else listener.generation,
        member=None if listener is None else listener.member,
        require_stable=stable() if event == "fetched" else None,
    )


def _refused_at_once(error: Exception, took_ns: int) -> bool:
    """Only a refusal of the first attempt is certain: an earlier one may have been stored before its answer was lost.

    A library waits for its back-off before each further attempt.
    """
    return library_error_of(error).name in _REFUSED and took_ns < RETRY_BACKOFF_MS * 1_000_000


async def ended(
    commit: Callable[[], Awaitable[object]] | None, abort: Callable[[], Awaitable[object]], *, tried_before: bool
) -> TransactionEnd:
    """`commit`: None to abort. `tried_before`: a commit of this transaction was asked for already."""
    refused: str | None = None
    if commit is not None:
        try:
            await commit()
        except TimeoutError:
            return TransactionEnd(outcome="unknown", error="the commit was not answered in time")
        except Exception as error:  # noqa: BLE001  # whatever it is: an abort that succeeds settles it
            refused = str(library_error_of(error))
        else:
            return TransactionEnd(outcome="committed")
    try:
        await abort()
    except Exception as error:  # noqa: BLE001  # without a commit there is nothing that could have committed it
        error_text = refused or str(library_error_of(error))
        was_tried = commit is not None or tried_before
        return TransactionEnd(outcome="unknown" if was_tried else "aborted", error=error_text)
    return TransactionEnd(outcome="aborted", error=refused)
