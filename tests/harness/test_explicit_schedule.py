"""A schedule that was drawn is a schedule that can be repeated."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from harness.scenario.file import parse
from harness.scenario.model import FaultSpec
from harness.scenario.written import explicit

LOAD = '[[topics]]\nname = "t"\n'
TIMED = FaultSpec(kind="crash", at_s=2.0, for_s=1.0)


@given(st.integers(0, 10_000), st.floats(0.5, 10), st.floats(0.1, 5))
def test_drawn_faults_become_timed_ones_that_end_in_time_and_never_overlap(
    seed: int, every: float, last: float
) -> None:
    drawn = FaultSpec(kind="pause", target="random(1)", every_s=every, for_s=last)
    planned = parse(f"{LOAD}[workload]\nduration = 30\nwarm_up = 1\n", name="s", place="s.toml")
    planned = replace(planned, faults=(TIMED, drawn))
    made = explicit(planned, chance=random.Random(seed))

    assert TIMED in made.faults
    ends = 1.0
    for fault in (fault for fault in made.faults if fault != TIMED):
        assert fault.every_s is None
        assert fault.at_s is not None
        assert fault.for_s is not None
        assert ends <= fault.at_s + 0.002
        ends = fault.at_s + fault.for_s
        assert ends <= 30.01
    assert explicit(made, chance=random.Random(1)) == made
    assert explicit(planned, chance=random.Random(seed)) == made


def test_each_drawn_fault_is_still_said_to_be_where_its_table_is() -> None:
    tables = '[[faults]]\nkind = "pause"\nat = "9 s"\n[[faults]]\nkind = "kill"\nevery = "4 s"\nfor = "1 s"\n'
    made = explicit(parse(LOAD + tables, name="s", place="s.toml"), chance=random.Random(1))
    kinds = [fault.kind for fault in made.faults]

    assert kinds.count("kill") > 1
    assert {made.places.fault(kinds.index(kind), "kind").line for kind in ("pause", "kill")} == {4, 7}
    assert made.places.fault(kinds.index("pause"), "kind").line == 4
