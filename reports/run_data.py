"""A judged run folder, read once with pandas: tables, verdict and names, and how moments and values are written."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import pandas as pd
import pyarrow.compute as pc

from harness.anomalies import Anomaly, anomaly_of
from harness.errors import UsageError
from harness.history.facts import values
from harness.history.facts.fault_facts import begin_of, begun
from harness.history.facts.node_end_facts import how_words
from harness.history.run_folder import RunFolder
from harness.history.schema.client_rows import VALUE_NAMES
from harness.history.schema.cluster_rows import FAULTS, NODE_ENDS, NodeEndRow
from harness.history.schema.evidence_rows import (
    FINDINGS,
    FindingRow,
    LogComparisonRow,
    LostRecordRow,
    ShownOperationRow,
)
from harness.history.schema.evidence_texts import check_evidence
from harness.history.schema.lawful_rows import check_table
from harness.history.schema.parquet_tables import check_texts, read_table, rows_of
from harness.history.schema.typed_rows import AnyRow, R, RowsOf
from harness.host import memory
from harness.host.printable import for_a_shell
from harness.ports.cluster import BEHIND_FRONT_ENDS, COORDINATION
from harness.scenario.file import scenario_of
from harness.scenario.model import Scenario

COORDINATION_WORDS = "coordination service"
_DOWN = {"kill": "dead", "stop": "down", "wipe": "dead", "pause": "paused"}
_LINK = re.compile(r"\b([nc]?)(\d+)>([nc]?)(\d+)\b")
_APART = re.compile(r"\b(?:node ?|broker |n)(10[0-9])\b")  # nodes that are no brokers: 100 and up
_RANGE = re.compile(r"(?<![\w.:-])(\d+)-(\d+)(?![\w-])")
_HELD = re.compile(r"bytes wait, (\d+) connections? held")
OfFinding = TypeVar("OfFinding", LostRecordRow, LogComparisonRow, ShownOperationRow)
_COORDINATION = {"kraft": "controller", "zookeeper": "ZooKeeper"}


class RunData:
    """Reads lazily; a table that was never written is an empty one with its columns."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder(path)
        self.path = path
        if not (path / "verdict.json").is_file():
            raise UsageError(f"{path}: not judged yet; run `kafka-chaos check {path}` first")
        self.verdict: Mapping[str, Any] = self.folder.verdict()
        self.run: Mapping[str, Any] = {"id": path.name, "seed": None} | self.folder.run
        self._rows: dict[str, Sequence[AnyRow]] = {}
        self._held = memory.Together()
        self._of_findings: dict[str, dict[str, list[AnyRow]]] = {}

    @cached_property
    def _added_anomalies(self) -> Mapping[str, Anomaly]:
        """Of what checks of installed packages find, as they stored it."""
        added = [Anomaly(**{**each, "names": tuple(each["names"])}) for each in self.verdict.get("anomalies", ())]
        return {name: anomaly for anomaly in added for name in anomaly.names}

    def anomaly(self, row: Mapping[str, Any]) -> Anomaly | None:
        """The page of a finding."""
        added = self._added_anomalies
        check, kind = row["check"], row["kind"]
        return anomaly_of(check, kind) or added.get(f"{check}/{kind}") or added.get(check)

    @cached_property
    def place(self) -> str:
        """The folder as a command takes it: from the working directory where it lies below it, or its whole path."""
        path = self.path.resolve()
        try:
            return for_a_shell(str(path.relative_to(Path.cwd())))
        except (ValueError, OSError):
            return for_a_shell(str(path))

    @cached_property
    def scenario(self) -> Scenario:
        return scenario_of(self.folder)

    @cached_property
    def origin_ns(self) -> int:
        """The moment that is 0.000 s on the page: when the load began, or the folder was made."""
        began = self.run.get("load_began_ns")
        return int(began if began is not None else self.folder.anchor().monotonic_ns)

    @cached_property
    def begin_s(self) -> float:
        """Where a drawn axis begins."""
        return 0.0

    def seconds(self, t_ns: Any) -> float | None:
        return None if t_ns is None or pd.isna(t_ns) else (int(t_ns) - self.origin_ns) / 1e9

    def moment(self, t_ns: Any) -> str:
        seconds = self.seconds(t_ns)
        return "not seen" if seconds is None else f"{seconds:.3f} s"

    def rows(self, table: RowsOf[R]) -> list[R]:
        """Read once, and never changed by whoever asks."""
        if table.name not in self._rows:
            path, found = self.path / "tables" / f"{table.name}.parquet", self.folder.table(table.name)
            if table.name == FINDINGS.name:
                check_texts(found, path, self._judged_again)
            rows = rows_of(table.row, found, path, self._held)
            if table.name == FINDINGS.name:
                check_evidence(cast(list[FindingRow], rows), path, self._judged_again)
            self._rows[table.name] = rows
        return cast(list[R], self._rows[table.name])

    def evidence(self, table: RowsOf[R]) -> list[R]:
        key = table.name
        if key not in self._rows:
            path = self.path / "tables" / f"{key}.parquet"
            self._rows[key] = []
            if path.is_file():
                found = read_table(path, key, remedy=self._judged_again)
                check_texts(found, path, self._judged_again)
                check_table(key, found, lambda run: path, self._judged_again)
                self._rows[key] = rows_of(table.row, found, path, self._held)
        return cast(list[R], self._rows[key])

    @property
    def _judged_again(self) -> str:
        return f"`kafka-chaos check {self.path}` writes it again"

    def evidence_of_finding(self, table: RowsOf[OfFinding], finding: str) -> list[OfFinding]:
        if table.name not in self._of_findings:
            grouped: dict[str, list[AnyRow]] = {}
            for row in self.evidence(table):
                grouped.setdefault(row["finding"], []).append(row)
            self._of_findings[table.name] = grouped
        return list(cast(list[OfFinding], self._of_findings[table.name].get(finding, ())))

    @cached_property
    def findings(self) -> list[FindingRow]:
        """In the order of the checks: violations, then permitted, then observations, causes before consequences."""
        return self.rows(FINDINGS)

    @cached_property
    def value_names(self) -> dict[int, str]:
        return {row["value"]: row["name"] for row in self.rows(VALUE_NAMES)}

    def value(self, number: int | None) -> str:
        return "" if number is None else values.shown(number, self.value_names)

    @cached_property
    def brokers(self) -> list[int]:
        return sorted(self.scenario.cluster.brokers)

    @cached_property
    def nodes_counted(self) -> str:
        """3 brokers, or 3 front ends."""
        return f"{len(self.brokers)} {'front ends' if self.scenario.cluster.attached.front_ends else 'brokers'}"

    @cached_property
    def system(self) -> str:
        """What was tested, for people: the title that the run wrote down, else the scenario's word."""
        title = (self.run.get("environment") or {}).get("system")
        return str(title) if title else f"{self.scenario.cluster.system} cluster"

    @cached_property
    def coordination(self) -> str:
        """What node 100 is: ZooKeeper, KRaft's controller, or the reference cluster's coordination service."""
        return _COORDINATION.get(str(self.environment.get("coordination")), COORDINATION_WORDS)

    def node_name(self, node: int) -> str:
        if self.scenario.cluster.attached.front_ends and node < COORDINATION:
            return f"front end {node}" if node != BEHIND_FRONT_ENDS else "the node behind them"
        if node in self.brokers or node < COORDINATION:
            return f"broker {node}"
        return self.coordination if node == COORDINATION else f"controller {node}"

    def node_title(self, node: int) -> str:
        """Its name at the beginning of a sentence."""
        name = self.node_name(node)
        return f"{name[0].upper()}{name[1:]}"

    def readable(self, text: str) -> str:
        return readable(text, self.coordination)

    @cached_property
    def environment(self) -> Mapping[str, Any]:
        return self.run.get("environment") or {}

    def down(self, node: int) -> list[tuple[int, int | None, str]]:
        """When faults held a broker down or still, or it was down by itself, as far as that was seen: (begin, end,
        "dead" | "down" | "paused").

        One after the other: of two that overlap, the first says what it was.
        """
        spans: list[tuple[int, int | None, str]] = [
            (begin_of(fault), fault["end_ns"], _DOWN[fault["kind"]])
            for fault in begun(self.rows(FAULTS))
            if fault["kind"] in _DOWN and node in (fault["nodes"] or ())
        ]
        spans += [(end["time_ns"], end["back_ns"], "dead") for end in self.rows(NODE_ENDS) if end["node"] == node]
        made: list[tuple[int, int | None, str]] = []
        for begin, until, word in sorted(spans, key=lambda span: span[0]):
            if made and (made[-1][1] is None or made[-1][1] >= begin):
                last = made.pop()
                ends = (last[1], until)
                made.append((last[0], None if None in ends else max(end for end in ends if end), last[2]))
            else:
                made.append((begin, until, word))
        return made

    def ended_words(self, end: NodeEndRow) -> str:
        """A node's end that no fault brought about, in a few words."""
        return f"{self.node_title(end['node'])} ended {how_words(end)}, not ordered"

    def colour(self, node: int) -> int:
        """A broker's colour number: the same as leader, as epoch label and in the logs."""
        return self.brokers.index(node) % 5 if node in self.brokers else 4

    @cached_property
    def end_s(self) -> float:
        """When the last thing worth drawing happened."""
        times = [self.run.get(name) for name in ("load_ended_ns", "ended_ns")]
        times += [anchor["monotonic_ns"] for anchor in self.run.get("anchors", [])[1:]]
        times.append(pc.max(self.folder.table("operations").column("completed_ns")).as_py())
        seconds = [self.seconds(time) for time in times if time is not None]
        return max([second for second in seconds if second is not None] or [1.0])


def utc(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def readable(text: str, coordination: str = COORDINATION_WORDS) -> str:
    """Names and ranges as people write them: "n2>n100" is "2→coordination service", "7-9" is "7–9"."""
    linked = _LINK.sub(
        lambda found: f"{_end(found[1], found[2], coordination)}→{_end(found[3], found[4], coordination)}", text
    )
    named = _APART.sub(lambda found: _apart(int(found[1]), coordination), linked)
    ranged = _RANGE.sub("\\1\u2013\\2", named)
    return _HELD.sub(lambda found: f"what is sent waits; open connections that stand still: {found[1]}", ranged)


def _apart(node: int, coordination: str) -> str:
    name = coordination if node == COORDINATION else f"controller {node}"
    return name if name[0].isupper() or node != COORDINATION else f"the {name}"


def _end(kind: str, number: str, coordination: str) -> str:
    if kind == "c":
        return f"client {number}"
    return coordination if int(number) == COORDINATION else number


def count_of(number: int) -> str:
    """12 345 as people read it, with a thin no-break space."""
    return f"{number:,}".replace(",", "\u202f")


def span_of(first: int | None, last: int | None) -> str:
    if first is None:
        return ""
    return str(first) if last is None or last == first else f"{first}\u2013{last}"


def partition_name(row: FindingRow) -> str:
    return f"{row['topic']}-{row['partition']}" if row["topic"] is not None else ""
