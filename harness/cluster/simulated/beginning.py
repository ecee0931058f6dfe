"""The moment at which every simulated run begins, on both clocks: a run's times tell nothing of when it was made."""

BEGINS_NS = 1_000_000_000_000  # the monotonic clock never shows zero on a machine that runs
BEGINS_WALL_NS = 1_767_225_600_000_000_000  # the first of January 2026, UTC


class Beginning:
    """Implements harness.host.clock.Clock for what is written before the loop of the run is there."""

    def monotonic_ns(self) -> int:
        return BEGINS_NS

    def wall_ns(self) -> int:
        return BEGINS_WALL_NS
