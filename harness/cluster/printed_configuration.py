"""What a broker uses, by its own word: the configuration that Kafka prints when a process starts, defaults included.

All releases print it, key by key ("KafkaConfig values:"): the old ones right before they start, newer ones
while they do. What they print later is of a reconfiguration, which the books tell better.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from harness.cluster import node_files
from harness.cluster.kafka_log_patterns import LINE, PATTERNS
from harness.history.schema.schemas import AT_START
from harness.host.clock import Anchor
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
    re.compile(words)
    for words in (*PATTERNS["starting"], r"^\[(?:SharedServer|ControllerServer|BrokerServer) id=\d+\] Starting \w+$")
)
# Lines that a process may log between its configuration and its start.
_LINES_BETWEEN = 3


def read_printed(node: NodeId, path: Path, anchor: Anchor) -> list[ConfigurationChange]:
    """What the node's log has of it, at each of its starts; nothing if there is no log. Its times must be UTC."""
    return list(printed(node, node_files.lines(path), anchor))


def printed(node: NodeId, lines: Iterable[str], anchor: Anchor) -> Iterator[ConfigurationChange]:
    last: _Print | None = None
    since, inside, starts = 0, False, False
    for line in lines:
        if (head := _HEAD.fullmatch(line)) is not None:
            last, since, inside = _Print(wall=head[1]), 0, True
        elif inside and (found := _VALUE.fullmatch(line.rstrip("\r\n"))) is not None:
            if last is not None and found[1] in KEYS:
                last.values[found[1]] = "" if found[2] == _UNSET else found[2].strip("[]")
        else:
            if inside and starts and last is not None:
                yield from last.changes_of(node, anchor)
                last, starts = None, False
            inside, since = False, since + 1
            if _is_of_a_start(line) and last is not None and since <= _LINES_BETWEEN + 1:
                yield from last.changes_of(node, anchor)
                last = None
            elif _is_of_a_start(line):
                starts = True


@dataclass(kw_only=True)
class _Print:
    wall: str
    values: dict[str, str] = field(default_factory=dict)

    def changes_of(self, node: NodeId, anchor: Anchor) -> Iterator[ConfigurationChange]:
        at = datetime.fromisoformat(self.wall.replace(",", ".")).replace(tzinfo=UTC)
        t_ns = anchor.monotonic_from_wall(round(at.timestamp() * 1000) * 1_000_000)
        for key, value in self.values.items():
            yield ConfigurationChange(
                t_ns=t_ns, scope="broker", name=str(node), node=node, key=key, value=value, source=AT_START
            )


def _is_of_a_start(line: str) -> bool:
    match = LINE.fullmatch(line.rstrip("\r\n"))
    return match is not None and any(spelling.search(match[3]) for spelling in _STARTS)
