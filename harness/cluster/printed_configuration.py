"""What a broker uses, by its own word: the configuration that Kafka prints when a process starts, defaults included.

All releases print it, key by key, before they begin to start ("KafkaConfig values:"). A print that no start follows is
of a reconfiguration, which the books tell better.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from harness.clock import Anchor
from harness.cluster.kafka_log_patterns import LINE, PATTERNS
from harness.history.schema.schemas import AT_START
from harness.ports.cluster import ConfigurationChange, NodeId

# What the checks judge by where no topic says otherwise.
KEYS = frozenset(
    {
        "unclean.leader.election.enable",
        "min.insync.replicas",
        "log.cleanup.policy",
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
        "log.retention.bytes",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.min.compaction.lag.ms",
        "log.message.timestamp.type",
        "offsets.retention.minutes",
    }
)
_HEAD = re.compile(r"\[?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]? INFO KafkaConfig values:\s*")
_VALUE = re.compile(r"\t([\w.]+) = (.*)")
_UNSET = "null"
_STARTS = tuple(
    re.compile(words) for words in (*PATTERNS["starting"], r"^\[ControllerServer id=\d+\] Starting controller")
)


def read_printed(node: NodeId, path: Path, anchor: Anchor) -> list[ConfigurationChange]:
    """What the node's log has of it, at each of its starts; nothing if there is no log. Its times must be UTC."""
    try:
        file = path.open(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    with file:
        return list(printed(node, file, anchor))


def printed(node: NodeId, lines: Iterable[str], anchor: Anchor) -> Iterator[ConfigurationChange]:
    t_ns, values, inside = 0, dict[str, str](), False
    for line in lines:
        if (head := _HEAD.fullmatch(line)) is not None:
            wall = datetime.fromisoformat(head[1].replace(",", ".")).replace(tzinfo=UTC)
            t_ns, values, inside = anchor.monotonic_from_wall(round(wall.timestamp() * 1000) * 1_000_000), {}, True
        elif inside and (found := _VALUE.fullmatch(line.rstrip("\r\n"))) is not None:
            if found[1] in KEYS:
                values[found[1]] = "" if found[2] == _UNSET else found[2].strip("[]")
        else:
            inside = False
            if values and _is_of_a_start(line):
                for key, value in values.items():
                    yield ConfigurationChange(
                        t_ns=t_ns, scope="broker", name=str(node), node=node, key=key, value=value, source=AT_START
                    )
                values = {}


def _is_of_a_start(line: str) -> bool:
    match = LINE.fullmatch(line.rstrip("\r\n"))
    return match is not None and any(spelling.search(match[3]) for spelling in _STARTS)
