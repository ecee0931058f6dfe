"""What a run exercised, counted as situations: whom a fault struck, and what was so when it did.

Counted from the sealed tables of a run alone. An outline is what a drawing can plan of a situation: the kind of fault,
whom it strikes, and after which other kind.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from harness.history.run_folder import RunFolder
from harness.history.schema.cluster_rows import ControllerRow, FaultRow, PartitionStateRow
from harness.history.schema.schemas import KIND_SEND
from harness.history.schema.typed_rows import typed

Role = Literal["leader", "follower", "out_of_isr", "controller", "other"]
InFlight = Literal["nothing", "records"]
SHORTLY_NS = 3_000_000_000
_NO_FAULT = ""


@dataclass(frozen=True, kw_only=True, order=True)
class Outline:
    """before: the kind of the fault before; "": none."""

    kind: str
    role: Role
    before: str


@dataclass(frozen=True, kw_only=True, order=True)
class Situation:
    """A fault began on a victim. kind: as the table of faults calls it.

    role: the highest that the victim had in any partition; "other" of faults that strike links or topics alone.
    isr_size: of that partition; 0: not known. epoch_change: a leader epoch of it had begun within 3 s before, after its
    first. in_flight: whether records were sent and not yet answered. before: the kind of the newest other fault that
    was in force then, or over for less than 3 s; "": none.
    """

    kind: str
    role: Role
    isr_size: int
    epoch_change: bool
    in_flight: InFlight
    before: str

    @property
    def outline(self) -> Outline:
        return Outline(kind=self.kind, role=self.role, before=self.before)


@dataclass(frozen=True, kw_only=True)
class Situations:
    """How often each was reached, by one run or many."""

    reached: Mapping[Situation, int] = field(default_factory=Counter)

    @cached_property
    def outlines(self) -> Mapping[Outline, int]:
        found: Counter[Outline] = Counter()
        for situation, count in self.reached.items():
            found[situation.outline] += count
        return found

    def worth(self, outline: Outline) -> float:
        """From 1 for what was never reached down towards 0: what a schedule is worth that plans it."""
        return 1.0 / (1 + self.outlines.get(outline, 0))

    def never(self, kinds: Iterable[str]) -> list[Outline]:
        """What none of the runs reached of all that faults of these kinds can do to members of a partition."""
        known = sorted(set(kinds))
        every = product(known, [role for role in get_args(Role) if role != "other"], [_NO_FAULT, *known])
        outlines = (Outline(kind=kind, role=role, before=before) for kind, role, before in every)
        return [outline for outline in outlines if not self.outlines.get(outline, 0)]

    def __add__(self, other: "Situations") -> "Situations":
        return Situations(reached=Counter(self.reached) + Counter(other.reached))


def situations_of(folder: RunFolder) -> Counter[Situation]:
    """Of one sealed run: one for each victim of each fault whose effect was seen."""
    faults = typed(FaultRow, folder.table("faults"))
    view = _View(
        typed(PartitionStateRow, folder.table("partition_states")), typed(ControllerRow, folder.table("controllers"))
    )
    sends = _sends(folder.table("records"))
    found: Counter[Situation] = Counter()
    for fault in faults:
        begin_ns = fault["begin_ns"]
        if begin_ns is None:
            continue
        asked_ns = fault["asked_ns"] if fault["asked_ns"] is not None else begin_ns
        in_flight: InFlight = "records" if _any_in_flight(sends, asked_ns) else "nothing"
        before = _before(fault, faults, asked_ns)
        victims: Sequence[int | None] = fault["nodes"] or (None,)
        for node in victims:
            role, isr_size, epoch_change = view.of(node, asked_ns)
            found[
                Situation(
                    kind=fault["kind"],
                    role=role,
                    isr_size=isr_size,
                    epoch_change=epoch_change,
                    in_flight=in_flight,
                    before=before,
                )
            ] += 1
    return found


def _sends(records: pa.Table) -> pa.Table:
    return records.filter(pc.equal(records["kind"], KIND_SEND)).select(["invoked_ns", "completed_ns"])


def _any_in_flight(sends: pa.Table, time_ns: int) -> bool:
    begun = pc.less_equal(sends["invoked_ns"], time_ns)
    return bool(pc.any(pc.and_(begun, pc.greater(sends["completed_ns"], time_ns))).as_py())


def _before(fault: FaultRow, faults: Sequence[FaultRow], time_ns: int) -> str:
    newest_ns, kind = -1, _NO_FAULT
    for other in faults:
        begin_ns, end_ns = other["begin_ns"], other["end_ns"]
        if other["fault"] == fault["fault"] or begin_ns is None or begin_ns > time_ns:
            continue
        if (end_ns is None or end_ns >= time_ns - SHORTLY_NS) and begin_ns > newest_ns:
            newest_ns, kind = begin_ns, other["kind"]
    return kind


class _View:
    """Who was what, by the exact states where the cluster's own books are there, else by what brokers said."""

    def __init__(self, states: Sequence[PartitionStateRow], controllers: Sequence[ControllerRow]) -> None:
        exact = [state for state in states if state["exact"]]
        self._partitions: dict[tuple[str, int], list[PartitionStateRow]] = {}
        for state in sorted(exact or states, key=lambda state: state["time_ns"]):
            self._partitions.setdefault((state["topic"], state["partition"]), []).append(state)
        self._controllers = sorted(controllers, key=lambda row: row["time_ns"])

    def of(self, node: int | None, time_ns: int) -> tuple[Role, int, bool]:
        """(role, size of the ISR, whether the epoch changed shortly before), of the partition where it has the role."""
        ranked = sorted(self._roles(node, time_ns), key=lambda each: get_args(Role).index(each[0]))
        if not ranked:
            return ("controller" if self._controls(node, time_ns) else "other"), 0, False
        role, isr_size, changed = ranked[0]
        if role == "other" and self._controls(node, time_ns):
            role = "controller"
        return role, isr_size, changed

    def _roles(self, node: int | None, time_ns: int) -> Iterator[tuple[Role, int, bool]]:
        for states in self._partitions.values():
            past = [state for state in states if state["time_ns"] <= time_ns]
            if not past:
                continue
            now = max(past, key=lambda state: (state["leader_epoch"], state["time_ns"]))
            yield _role(node, now), len(now["isr"]), _changed(past, time_ns)

    def _controls(self, node: int | None, time_ns: int) -> bool:
        past = [row["node"] for row in self._controllers if row["time_ns"] <= time_ns]
        return bool(past) and past[-1] == node


def _role(node: int | None, state: PartitionStateRow) -> Role:
    if node is None:
        return "other"
    if state["leader"] == node:
        return "leader"
    if node in state["isr"]:
        return "follower"
    return "out_of_isr" if node in (state["replicas"] or ()) else "other"


def _changed(past: Sequence[PartitionStateRow], time_ns: int) -> bool:
    first = min(state["leader_epoch"] for state in past)
    before = [state["leader_epoch"] for state in past if state["time_ns"] < time_ns - SHORTLY_NS]
    known = max(before, default=first)
    return any(state["leader_epoch"] > known for state in past)
