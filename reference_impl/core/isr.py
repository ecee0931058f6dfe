"""The ISR as a leader sees it: what the controller has committed, and what it was asked to change (KIP-497).

The leader proposes, the controller commits. Until the answer is in, either may be the truth: `maximal_isr` holds
every replica that may be a member, so a newcomer counts at once and a leaver still counts.
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
    proposal: IsrProposal  # kept: a retry must carry the broker epoch that was caught up, not a newer one (KIP-903)

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

# Refused for sure, and nothing of ours was committed before: back to the committed ISR (1.8).
_REVERT = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
# The controller is ahead of us, or an earlier attempt got through: stay pending until its word arrives.
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


class IsrDesk:
    """Holds the ISR state and the one proposal that may be in flight. Every proposal taken must be answered once."""

    def __init__(self, isr: Iterable[int]) -> None:
        self.state: IsrState = Committed(isr=tuple(isr))
        self._in_flight = False  # taken, not answered
        self._waiting = False  # answered, but only the controller's word can settle it

    def committed(self, isr: Iterable[int]) -> None:
        """The controller's newer word ends whatever was pending."""
        self.state = Committed(isr=tuple(isr))
        self._in_flight = self._waiting = False

    def heard_again(self) -> None:
        """The controller repeated what we knew. What is pending stays so, for an earlier attempt may yet be committed,
        but it may be sent again. Not while one is in flight: two answers could contradict each other."""
        self._waiting = False

    def propose(self, pending: PendingExpand | PendingShrink) -> None:
        assert isinstance(self.state, Committed), "one proposal at a time"
        self.state = pending
        self._in_flight = self._waiting = False

    def take_proposal(self) -> IsrProposal | None:
        """The pending proposal, once; again only after an answer that asks for a retry."""
        if isinstance(self.state, Committed) or self._in_flight or self._waiting:
            return None
        self._in_flight = True
        return self.state.proposal

    def is_pending(self, proposal: IsrProposal) -> bool:
        return not isinstance(self.state, Committed) and self.state.proposal == proposal

    def refused(self, proposal: IsrProposal, error: ErrorCode) -> bool:
        """Takes an error answer; True when the ISR state changed."""
        if not self.is_pending(proposal):
            return False
        self._in_flight = False
        if error in _REVERT:
            self.committed(self.state.isr)
            return True
        self._waiting = error in _WAIT
        return False
