"""What would have prevented a loss: derived from the rule that decided, not tested."""

from collections.abc import Sequence

from harness.checks.contract.rulings import Ruling
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.unclean_rules import UNCLEAN_KEY
from harness.history.facts.finding_facts import Remedy


def prevention(ruling: Ruling, lost: LostRecord, *, in_sync: Sequence[int] = (), replicas: int = 0) -> list[Remedy]:
    """What would have prevented the loss, derived from the rule that decided; not tested.

    in_sync: the largest ISR in force when one of the records was acknowledged; replicas: how many there are.
    """
    if ruling.classification == "violation":
        return []
    if ruling.cause == "unclean-election" and ruling.election is not None:
        # Waiting for replicas whose disks were lost would not help.
        kept = Remedy(code="no-unclean-election", key=UNCLEAN_KEY, value="false", nodes=ruling.election.eligible)
        ways = [Remedy(code="another-disk") if ruling.destroyed else kept]
        if lost.acks not in (0, 1) and 0 < len(in_sync) < replicas:
            value = str(len(in_sync) + 1)
            ways.append(Remedy(code="more-in-sync", key="min.insync.replicas", value=value, in_sync=tuple(in_sync)))
        return ways
    if ruling.cause == "fail-over":
        return [Remedy(code="acks-of-all", key="acks", value="all")]
    return [Remedy(code="another-disk")] if ruling.cause == "destruction" else []
