"""What would have kept records that were lost: derived from the rule that decided, and never run."""

from collections.abc import Sequence

from harness.checks.contract.rulings import Ruling
from harness.checks.model.lost_records import LostRecord
from harness.checks.model.unclean_rules import UNCLEAN_KEY
from harness.history.facts.finding_facts import Remedy


def prevention(ruling: Ruling, lost: LostRecord, *, in_sync: Sequence[int] = (), replicas: int = 0) -> list[Remedy]:
    """What would have kept the records, from the rule that decided. It was not run.

    in_sync: the largest ISR in force when one of them was acknowledged; replicas: how many the partition has.
    """
    if ruling.classification == "violation":
        return []
    if ruling.cause == "unclean-election" and ruling.election is not None:
        # Waiting for those whose copies went with their disks brings nothing back.
        kept = Remedy(code="no-unclean-election", key=UNCLEAN_KEY, value="false", nodes=ruling.election.eligible)
        ways = [Remedy(code="another-disk") if ruling.destroyed else kept]
        if lost.acks not in (0, 1) and 0 < len(in_sync) < replicas:
            value = str(len(in_sync) + 1)
            ways.append(Remedy(code="more-in-sync", key="min.insync.replicas", value=value, in_sync=tuple(in_sync)))
        return ways
    if ruling.cause == "fail-over":
        return [Remedy(code="acks-of-all", key="acks", value="all")]
    return [Remedy(code="another-disk")] if ruling.cause == "destruction" else []
