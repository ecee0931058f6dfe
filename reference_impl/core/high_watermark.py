"""The input of the high watermark decision: each remote replica as the rule sees it (R11)."""

from collections.abc import Callable, Iterable

from reference_impl.core.isr import IsrState
from reference_impl.core.replica import RemoteReplica
from reference_impl.core.rules import FollowerView


def follower_views(
    remotes: Iterable[RemoteReplica],
    *,
    isr: IsrState,
    in_force: frozenset[int],
    is_eligible: Callable[[RemoteReplica], bool],
    now_ms: float,
    lag_time_max_ms: int,
) -> list[FollowerView]:
    assert lag_time_max_ms >= 0
    return [
        FollowerView(
            log_end_offset=remote.log_end_offset,
            in_maximal_isr=remote.broker_id in in_force,
            in_committed_isr=remote.broker_id in isr.isr,
            caught_up=now_ms - remote.last_caught_up_ms <= lag_time_max_ms,
            eligible=is_eligible(remote),
        )
        for remote in remotes
    ]
