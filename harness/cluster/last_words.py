"""Why a process ended, by what it logged last: a typed reason, and the line that says so, for people.

A log is read in entries: a line that begins with a time, and what follows it (an exception and its causes). Only what
was logged since the process was started counts, and as a reason only what it logged in its last seconds: the last of
those entries that names a known reason decides, for more errors may follow while it ends.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from harness.cluster import node_files
from harness.errors import HarnessError
from harness.history.schema.cluster_rows import EndReason

_READ_BYTES = 1 << 18
_LINE_CHARACTERS = 300
# Kafka's and ZooKeeper's format (kafka_log_configuration.py), and those of the reference's nodes.
_ENTRY = re.compile(r"\[?(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)[,.]\d{3}\]? (?P<level>[A-Z]+) (?P<text>.*)")
_LATELY = timedelta(seconds=10)
_SERIOUS = frozenset({"ERROR", "FATAL", "CRITICAL"})
# Alone on its line, of Java and of Python; Python's comes last of its trace, Java's first.
_THROWN = re.compile(r"(?:Caused by: |Exception in thread \"[^\"]*\" )?(?:[\w$]+\.)*[\w$]*(?:Exception|Error)(?:: .*)?")
_LOGGER = re.compile(r" \([\w.$]+\)$")
# Each by the words of the releases that end for it: KafkaRaftClient (KIP-595, from 2.7), ReplicaFetcherThread (up to
# 1.1); LogManager and ReplicaManager (KIP-112, from 1.0), ReplicaManager before; BrokerLifecycleManager (KIP-631),
# KafkaZkClient and ZkUtils; KafkaServer (KAFKA-7335); the JVM and the kernel.
_REASONS: Sequence[tuple[EndReason, re.Pattern[str]]] = (
    ("disk-full", re.compile(r"No space left on device")),
    (
        "metadata-truncation-refused",
        re.compile(r"requested truncation to offset \d+, which is below the current high watermark"),
    ),
    ("truncation-refused", re.compile(r"because log truncation is not allowed for (?:partition|topic)")),
    (
        "registration-failed",
        re.compile(
            r"unable to register with the controller quorum|A broker is already registered on the path|"
            r"node already exists and owner"
        ),
    ),
    ("other-cluster", re.compile(r"InconsistentClusterIdException|Cluster ID \S+ doesn't match stored clusterId")),
    (
        "out-of-resources",
        re.compile(r"java\.lang\.OutOfMemoryError|MemoryError|Too many open files|Cannot allocate memory"),
    ),
    (
        "log-directory-failed",
        re.compile(
            r"because all log dirs in .* have failed|Halting broker because dir |"
            r"Halting due to unrecoverable I/O error|only log directory failed"
        ),
    ),
)


@dataclass(frozen=True, kw_only=True)
class LastWords:
    """reason: None: its log could not be read. "none": nothing in it is serious; then `line` is empty."""

    reason: EndReason | None = None
    line: str = ""


def last_words(log: Path, *, since: int = 0) -> LastWords:
    """`since`: the size of the log when the process was started."""
    try:
        text = node_files.read_end(log, _READ_BYTES, since=since).decode(errors="replace")
    except (OSError, HarnessError):
        return LastWords()
    return words_of(text)


def words_of(text: str) -> LastWords:
    entries = _entries(text.splitlines())
    serious = [entry for entry in entries if entry.is_serious]
    if not serious:
        return LastWords(reason="none")
    last = entries[-1].time
    lately = [entry for entry in serious if entry.time is None or last is None or last - entry.time <= _LATELY]
    named = [entry for entry in lately if entry.reason is not None]
    if not named:
        return LastWords(reason="exception" if lately else "none", line=serious[-1].line)
    full = next((entry for entry in reversed(named) if entry.reason == "disk-full"), None)
    if named[-1].reason == "log-directory-failed" and full is not None:  # it says that a disk failed, and not why
        return LastWords(reason="disk-full", line=full.line)
    return LastWords(reason=named[-1].reason, line=named[-1].line)


@dataclass(frozen=True, kw_only=True)
class _Entry:
    time: datetime | None
    level: str
    lines: Sequence[str]

    @property
    def is_serious(self) -> bool:
        return self.level in _SERIOUS

    @property
    def reason(self) -> EndReason | None:
        return next((reason for reason, words in _REASONS if any(map(words.search, self.lines))), None)

    @property
    def line(self) -> str:
        """What was said, and the innermost exception below it."""
        thrown = [line for line in self.lines[1:] if _THROWN.fullmatch(line)]
        text = _LOGGER.sub("", self.lines[0])
        inner = thrown[-1].removeprefix("Caused by: ") if thrown else ""
        parts = [part for part in (text, inner) if part and not part.startswith("Traceback")]
        return ": ".join(part[:_LINE_CHARACTERS] for part in parts)


def _entries(lines: Sequence[str]) -> list[_Entry]:
    """An exception below an entry that is not serious, or below none, is an entry of its own: nobody logged it."""
    found: list[tuple[datetime | None, str, list[str]]] = []
    for raw in lines:
        line = raw.strip()
        if (begun := _ENTRY.fullmatch(line)) is not None:
            found.append((datetime.fromisoformat(begun["time"]), begun["level"], [begun["text"]]))
        elif found and found[-1][1] in _SERIOUS:
            found[-1][2].append(line)
        elif line.startswith(("Traceback (most recent call last)", "Exception in thread")):
            found.append((found[-1][0] if found else None, "ERROR", [line]))
    return [_Entry(time=time, level=level, lines=own) for time, level, own in found]


# ---- for error messages: its last lines as they are ------------------------------------------------------------------

_LINES_SHOWN = 5
_END_BYTES = 65_536
_CAUSE_LINE = re.compile(r"Caused by: (.+)")
# Of Java and of Python, alone on its line or behind the name of its thread.
_EXCEPTION_LINE = re.compile(
    r"(?:Exception in thread \"[^\"]*\" )?((?:[\w$]+\.)*[\w$]*(?:Exception|Error|Exit)(?:: .+)?)"
)
_SERIOUS_LINE = re.compile(r"\b(?:ERROR|FATAL)\b")


def last_lines(log: Path) -> list[str]:
    """Returns the last few non-empty lines; none if there is no log."""
    return _end_of(log)[-_LINES_SHOWN:]


def reason_in(log: Path) -> str:
    """The line of a log that says why its writer ended: the innermost cause, else the exception, else the last serious
    line, else the last one. Empty if there is no log."""
    lines = [line.strip() for line in _end_of(log)]
    causes = [match[1] for line in lines if (match := _CAUSE_LINE.fullmatch(line))]
    exceptions = [match[1] for line in lines if (match := _EXCEPTION_LINE.fullmatch(line))]
    serious = [line for line in lines if _SERIOUS_LINE.search(line)]
    return next((found[-1] for found in (causes, exceptions, serious, lines) if found), "")


def _end_of(log: Path) -> list[str]:
    try:
        text = node_files.read_end(log, _END_BYTES).decode(errors="replace")
    except (OSError, HarnessError):
        return []
    return [line.rstrip()[:_LINE_CHARACTERS] for line in text.splitlines() if line.strip()]
