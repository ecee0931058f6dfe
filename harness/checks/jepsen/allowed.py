"""Which of Jepsen's anomalies make a history invalid, and which of ours do.

His are those that `allowed-error-types` of jepsen.tests.kafka does not allow.
"""

from collections.abc import Iterable

from harness.checks.jepsen.own_rules import INCONCLUSIVE, REPORTED

# Kafka never isolates writes from one another.
_ALWAYS = frozenset(
    {
        "int-send-skip",
        "G0",
        "G0-process",
        "G0-realtime",
        "PL-1-cycle-exists",
        "strong-PL-1-cycle-exists",
    }
)
# A group may move partitions between two polls.
_SUBSCRIBED = frozenset({"poll-skip", "nonmonotonic-poll"})
# With edges between writes, cycles through them are to be expected.
_WRITE_EDGES = frozenset(
    {
        "G1c",
        "G1c-process",
        "G1c-realtime",
        "PL-2-cycle-exists",
        "strong-PL-2-cycle-exists",
    }
)


def bad_names(names: Iterable[str], *, sub_via: frozenset[str], ww_deps: bool) -> list[str]:
    allowed = _ALWAYS | REPORTED | INCONCLUSIVE
    if "subscribe" in sub_via:
        allowed |= _SUBSCRIBED
    if ww_deps:
        allowed |= _WRITE_EDGES
    return sorted(name for name in names if name not in allowed)
