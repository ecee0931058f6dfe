"""A schedule that was drawn is a schedule that can be repeated."""

import random

from hypothesis import given
from hypothesis import strategies as st

from faults.plan import written_out
from harness.scenario.model import FaultSpec

TIMED = FaultSpec(kind="crash", at_s=2.0, for_s=1.0)


@given(st.integers(0, 10_000), st.floats(0.5, 10), st.floats(0.1, 5))
def test_drawn_faults_become_timed_ones_that_end_in_time_and_never_overlap(
    seed: int, every: float, last: float
) -> None:
    drawn = FaultSpec(kind="pause", target="random(1)", every_s=every, for_s=last)
    explicit = written_out([TIMED, drawn], begin_s=1.0, duration_s=30, chance=random.Random(seed))

    assert TIMED in explicit
    ends = 1.0
    for fault in (fault for fault in explicit if fault != TIMED):
        assert fault.every_s is None
        assert fault.at_s is not None
        assert fault.for_s is not None
        assert ends <= fault.at_s + 0.002
        ends = fault.at_s + fault.for_s
        assert ends <= 30.01
    assert written_out(explicit, duration_s=30, chance=random.Random(1)) == explicit
    assert written_out([TIMED, drawn], begin_s=1.0, duration_s=30, chance=random.Random(seed)) == explicit
