"""What would have kept records that were lost: said from the rule that decided, and never run."""

from collections.abc import Sequence

from harness.checks.contract import Ruling
from harness.checks.fates import Fate

_ANOTHER_DISK = (
    "A further in-sync replica on another disk would have kept them: min.insync.replicas above the number of disks "
    "lost at once refuses writes that fewer copies would hold."
)


def prevention(ruling: Ruling, fate: Fate, *, in_sync: Sequence[int] = (), replicas: int = 0) -> list[str]:
    """What would have kept the records, from the rule that decided. It was not run.

    in_sync: the largest ISR in force when one of them was acknowledged; replicas: how many the partition has.
    """
    if ruling.classification == "violation":
        return []
    if ruling.cause == "unclean-election" and ruling.election is not None:
        back = " or ".join(f"broker {node}" for node in ruling.election.eligible) or "an in-sync replica"
        kept = (
            f"With unclean.leader.election.enable=false the partition would have stayed without a leader until {back} "
            "came back, and nothing acknowledged with acks=all would have been lost."
        )
        # Waiting for those whose copies went with their disks brings nothing back.
        ways = [_ANOTHER_DISK if ruling.destroyed else kept]
        if fate.acks not in (0, 1) and 0 < len(in_sync) < replicas:
            ways.append(
                f"With min.insync.replicas={len(in_sync) + 1} none of these records would have been acknowledged: "
                f"the ISR was {list(in_sync)}, and acks=all then needs {len(in_sync) + 1} members."
            )
        return ways
    if ruling.cause == "fail-over":
        return [
            "With acks=all the leader would have acknowledged these records only after every in-sync replica had them; "
            "the new leader would have had them too.",
        ]
    if ruling.cause == "destruction":
        return [_ANOTHER_DISK]
    return []
