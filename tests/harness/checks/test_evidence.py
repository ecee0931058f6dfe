"""What is kept to prove a finding: its operations, whichever way it names them, and not more than a reader can use."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.checks import evidence_tables as evidence
from harness.checks.findings import Finding
from harness.history.schema.evidence_rows import ShownOperationRow
from tests.harness.checks.histories.build import History, tables

Rows = dict[str, list[ShownOperationRow]]


def finding(**changes: Any) -> Finding:
    fields: dict[str, Any] = {
        "run": 0,
        "check": "group-skip",
        "classification": "violation",
        "kind": "skipped",
        "topic": "t",
        "partition": 0,
        "count": 1,
        "sentence": "skipped.",
    }
    return Finding(**{**fields, **changes})


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    history = History()
    history.send(1, 0, at=1.0)
    history.send(2, 1, at=2.0)
    history.poll([(0, 1), (1, 2)], at=3.0)
    history.final([(0, 1), (1, 2)])
    polled = next(row["operation"] for row in history.rows["records"] if row["kind"] == 1)
    built_rows = [
        ("F1", finding(values=[2])),
        ("F2", finding(operations=[polled])),
        ("F3", finding(values=[2], operations=[polled])),
        ("F4", finding(topic="elsewhere", values=[2])),
        *((f"F{number}", finding(kind="many", values=[1])) for number in range(10, 10 + evidence.PER_KIND + 5)),
    ]
    opened = tables(spark, tmp_path_factory.mktemp("tables"), [history])
    grouped: Rows = {}
    for row in evidence.operation_rows(opened, built_rows):
        grouped.setdefault(row["finding"], []).append(row)
    return grouped


def seen(rows: Rows, name: str) -> list[tuple[str, int, int | None]]:
    return [(row["kind"], row["value"], row["offset"]) for row in rows.get(name, ())]


def test_a_finding_is_proved_by_what_was_done_to_its_values(rows: Rows) -> None:
    assert seen(rows, "F1") == [("send", 2, 1), ("poll", 2, 1), ("final_poll", 2, 1)]
    assert {(row["topic"], row["partition"]) for row in rows["F1"]} == {("t", 0)}


def test_a_finding_is_proved_by_the_operations_that_it_names(rows: Rows) -> None:
    assert seen(rows, "F2") == [("poll", 1, 0), ("poll", 2, 1)]


def test_what_is_named_twice_is_there_once(rows: Rows) -> None:
    assert seen(rows, "F3") == [("send", 2, 1), ("poll", 1, 0), ("poll", 2, 1), ("final_poll", 2, 1)]


def test_values_of_another_topic_are_other_values(rows: Rows) -> None:
    assert seen(rows, "F4") == []


def test_of_many_findings_of_one_kind_the_first_are_proved(rows: Rows) -> None:
    proved = [name for name in rows if int(name[1:]) >= 10]
    assert proved == [f"F{number}" for number in range(10, 10 + evidence.PER_KIND)]
