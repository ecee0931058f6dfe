"""The ISR as a leader sees it: the committed ISR, and the change that it has proposed to the controller (KIP-497).

The leader proposes and the controller commits. Until the answer arrives, either ISR may be in force. `maximal_isr`
therefore contains every possible member: a joining replica counts at once, a leaving one still counts.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from reference_impl.core.identifiers import ErrorCode
from reference_impl.core.state import IsrProposal


@dataclass(frozen=True, kw_only=True)
class Committed:
    isr: tuple[int, ...]

    @property
    def maximal_isr(self) -> frozenset[int]:
        return frozenset(self.isr)


@dataclass(frozen=True, kw_only=True)
class PendingExpand:
    isr: tuple[int, ...]
    joining: int
    proposal: IsrProposal  # kept: a retry must carry the broker epoch that caught up, not a newer one (KIP-903)

    @property
    def maximal_isr(self) -> frozenset[int]:
        return frozenset((*self.isr, self.joining))


@dataclass(frozen=True, kw_only=True)
class PendingShrink:
    isr: tuple[int, ...]
    leaving: frozenset[int]
    proposal: IsrProposal

    @property
    def maximal_isr(self) -> frozenset[int]:
        return frozenset(self.isr)


IsrState = Committed | PendingExpand | PendingShrink

# Definitely refused, and no earlier attempt was committed: back to the committed ISR (R30).
_REVERT = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
# The controller has a newer state, or an earlier attempt was committed: stay pending until its update arrives.
_WAIT = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class IsrTracker:
    """Holds the ISR state and at most one proposal in flight. Every proposal that was taken must be answered once."""

    def __init__(self, isr: Iterable[int]) -> None:
        self.state: IsrState = Committed(isr=tuple(isr))
        self._in_flight = False  # sent, not answered yet
        self._waiting = False  # answered, but only the controller's update can settle it

    def committed(self, isr: Iterable[int]) -> None:
        """Takes a newer state of the controller; it ends any pending proposal."""
        members = tuple(isr)
        assert len(set(members)) == len(members), f"{members} names a broker twice"
        self.state = Committed(isr=members)
        self._in_flight = self._waiting = False

    def heard_again(self) -> None:
        """Handles a controller update that repeats the known state. A pending proposal stays pending, because an
        earlier attempt may still be committed, but it may be sent again. Not while one is in flight: two answers could
        contradict each other."""
        self._waiting = False

    def propose(self, pending: PendingExpand | PendingShrink) -> None:
        assert isinstance(self.state, Committed), "one proposal at a time"
        assert pending.isr == self.state.isr, "it starts from what is committed"
        self.state = pending
        self._in_flight = self._waiting = False

    def take_proposal(self) -> IsrProposal | None:
        """Returns the pending proposal once; again only after an answer that asks for a retry."""
        if isinstance(self.state, Committed) or self._in_flight or self._waiting:
            return None
        self._in_flight = True
        return self.state.proposal

    def is_pending(self, proposal: IsrProposal) -> bool:
        return not isinstance(self.state, Committed) and self.state.proposal == proposal

    def refused(self, proposal: IsrProposal, error: ErrorCode) -> bool:
        """Handles an error answer; True if the ISR state changed."""
        assert error is not ErrorCode.NONE
        if not self.is_pending(proposal):
            return False
        self._in_flight = False
        if error in _REVERT:
            self.committed(self.state.isr)
            return True
        self._waiting = error in _WAIT
        return False
