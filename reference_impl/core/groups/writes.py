"""Appends of a coordinator, with a limit to how long anybody waits for an answer.

Whoever waits is told REQUEST_TIMED_OUT after offsets.commit.timeout.ms. The record may be replicated all the same: the
coordinator learns of that later, so that what it tells is what its successor would find in the log (R65).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reference_impl.core.groups.group_data import GroupClock, GroupLog, Written
from reference_impl.core.identifiers import ErrorCode
from reference_impl.wire.key_values import KeyValue


@dataclass(kw_only=True, eq=False)
class _Waiting:
    answered: Callable[[ErrorCode], None]
    until_ms: float


class Writes:
    def __init__(self, log: GroupLog, clock: GroupClock, *, timeout_ms: int) -> None:
        self._log = log
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._waiting: dict[_Waiting, None] = {}  # in order of their deadlines

    def append(
        self,
        records: Sequence[KeyValue],
        *,
        committed: Callable[[int], None] = lambda offset: None,
        ended: Callable[[], None] = lambda: None,
        answered: Callable[[ErrorCode], None] = lambda error: None,
    ) -> Written:
        """`committed` is called with the first record's offset when all are replicated, be it late; `ended` in any
        case, after it; `answered` once, in time. With an error in the result nothing was appended, and `answered` has
        been called."""
        waiting = _Waiting(answered=answered, until_ms=self._clock.now_ms() + self._timeout_ms)

        def decided(written: Written) -> None:
            if written.error is ErrorCode.NONE:
                committed(written.offset)
            ended()
            self._answer(waiting, written.error)

        self._waiting[waiting] = None
        appended = self._log.append(records, decided)
        if appended.error is not ErrorCode.NONE:
            decided(appended)
        return appended

    def tick(self) -> None:
        now_ms = self._clock.now_ms()
        for waiting in [each for each in self._waiting if now_ms >= each.until_ms]:
            self._answer(waiting, ErrorCode.REQUEST_TIMED_OUT)

    def _answer(self, waiting: _Waiting, error: ErrorCode) -> None:
        if waiting in self._waiting:
            del self._waiting[waiting]
            waiting.answered(error)
