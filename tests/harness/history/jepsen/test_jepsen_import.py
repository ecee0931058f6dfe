"""The import of Jepsen's events: rows, numbers, names, and the extra table for facts without a column."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.history.jepsen.edn_reader import Keyword
from harness.history.jepsen.imported import KIND_STRAY_POLL, KIND_STRAY_SEND, ImportedHistory, together
from harness.history.jepsen.jepsen_import import history_files, import_text, read_history

TXN = """
{:index 0 :time 10 :process 0 :type :invoke :f :txn :value [[:send :x "a"] [:poll]]}
{:index 1 :time 11 :process :nemesis :type :info :f :kill :value nil}
{:index 2 :time 12 :process 0 :type :ok :f :txn :value [[:send :x [5 "a"]] [:poll {:x [[5 "a"]], 7 []}]]
 :rebalance-log ({:type :assigned, :keys [:x]} {:type :revoked, :keys [:x]})}
{:index 3 :time 13 :process 1 :type :invoke :f :send :value [[:send "x" :a]]}
"""


def read_histories(paths: Sequence[Path]) -> list[ImportedHistory]:
    files = history_files(paths)
    return [read_history(file.path, through_links=file.through_links, name=file.name) for file in files]


def test_operations_and_records_follow_the_completions() -> None:
    history = import_text("h", TXN)
    ops, records = history.tables["operations"].to_pylist(), history.tables["records"].to_pylist()

    assert [
        (
            op["operation"],
            op["function"],
            op["status"],
            op["invocation_index"],
            op["completion_index"],
            op["invoked_ns"],
            op["completed_ns"],
        )
        for op in ops
    ] == [
        (2, "txn", 0, 0, 2, 10, 12),
        (3, "send", 2, 3, None, 13, None),
    ]
    assert [
        (row["kind"], row["operation"], row["position"], row["micro_operation"], row["offset"], row["completed"])
        for row in records
    ] == [
        (0, 2, 0, 0, 5, True),
        (1, 2, 1, 1, 5, True),
        (0, 3, 0, 0, None, False),
    ]
    assert [row["moved"] for row in records] == [True, True, False]


def test_keys_and_values_come_back_as_they_were() -> None:
    history = import_text("h", TXN)
    records = history.tables["records"].to_pylist()

    assert set(history.keys) == {Keyword("x"), "x", 7}
    assert [(history.keys[row["partition_id"]], history.values[row["value"]]) for row in records] == [
        (Keyword("x"), "a"),
        (Keyword("x"), "a"),
        ("x", Keyword("a")),
    ]
    assert {row["topic"] for row in history.tables["partitions"].to_pylist()} == {":x", '"x"', "7"}
    assert [row["name"] for row in history.tables["value_names"].to_pylist()] == [
        {"a": '"a"'}.get(str(value), ":a") for value in history.values
    ]


def test_what_has_no_record_is_kept_beside() -> None:
    history = import_text("h", TXN)
    beside = {(row["what"], history.keys[row["partition_id"]]) for row in history.tables["imported_keys"].to_pylist()}

    assert beside == {("read_nothing", 7), ("rebalanced", Keyword("x")), ("left", Keyword("x"))}


def test_assignments_seeks_and_end_offsets_are_kept() -> None:
    history = import_text(
        "h",
        """
        {:index 0 :process 0 :type :invoke :f :assign :value [1 2] :seek-to-beginning? true}
        {:index 1 :process 0 :type :ok :f :assign :value [1 2] :seek-to-beginning? true}
        {:index 2 :process 0 :type :invoke :f :subscribe :value [1]}
        {:index 3 :process 0 :type :info :f :subscribe :value [1]}
        {:index 4 :process 0 :type :invoke :f :debug-topic-partitions :value [1]}
        {:index 5 :process 0 :type :ok :f :debug-topic-partitions :value {:partitions {1 {:end-offset 9}}}}
        {:index 6 :process 0 :type :invoke :f :crash :value nil}
        {:index 7 :process 0 :type :info :f :crash :value nil}""",
    )
    beside = [
        (row["operation"], row["what"], history.keys[row["partition_id"]], row["offset"])
        for row in history.tables["imported_keys"].to_pylist()
    ]

    assert beside == [
        (1, "assigned", 1, None),
        (1, "direct", 1, None),
        (1, "sought", 1, None),
        (1, "assigned", 2, None),
        (1, "direct", 2, None),
        (1, "sought", 2, None),
        (3, "assigned", 1, None),
        (5, "end", 1, 9),
    ]
    assert [op["function"] for op in history.tables["operations"].to_pylist()] == [
        "assign",
        "subscribe",
        "debug-topic-partitions",
        "crash",
    ]


def test_sends_in_a_poll_and_polls_in_a_send_tell_offsets_only() -> None:
    history = import_text(
        "h",
        """
        {:index 0 :process 0 :type :invoke :f :poll :value []} {:index 1 :process 0 :type :ok :f :poll
         :value [[:send 1 [0 1]]]}
        {:index 2 :process 0 :type :invoke :f :send :value []} {:index 3 :process 0 :type :ok :f :send
         :value [[:poll {1 [[0 1]]}]]}""",
    )

    assert history.tables["records"].column("kind").to_pylist() == [KIND_STRAY_SEND, KIND_STRAY_POLL]


def test_many_histories_are_one_set_of_tables() -> None:
    tables = together([import_text("one", TXN), import_text("none", ""), import_text("two", TXN)])

    assert tables["operations"].column("run").to_pylist() == [0, 0, 2, 2]
    assert tables["records"].column("run").to_pylist() == [0, 0, 0, 2, 2, 2]
    assert {table.num_rows for table in together([import_text("none", "")]).values()} == {0}


def test_a_folder_gives_its_histories_in_order_of_name(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.edn").write_text(TXN)
    (tmp_path / "results.json").write_text(json.dumps({}))

    assert [history.name for history in read_histories([tmp_path, tmp_path / "b.edn"])] == ["a", "b", "b"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"has no \.edn file"):
        read_histories([tmp_path / "empty"])


def test_a_store_as_jepsen_lays_it_out_gives_each_tests_history_alone_named_by_its_folder(tmp_path: Path) -> None:
    for test, time in (("kafka", "20230407T120000.000+0000"), ("kafka", "20230408T1"), ("queue", "20230407T1")):
        folder = tmp_path / "store" / test / time
        (folder / "n1").mkdir(parents=True)
        (folder / "history.edn").write_text(TXN)
        (folder / "history.txt").write_text("0\t:invoke\t:poll\t[[:poll]]")
        for other in ("results.edn", "consume-counts.edn", "n1/state.edn"):
            (folder / other).write_text("{:valid? true}")
    for latest in (tmp_path / "store" / "latest", tmp_path / "store" / "kafka" / "latest"):
        latest.symlink_to(tmp_path / "store" / "kafka" / "20230408T1")

    def names(*paths: Path) -> list[str]:
        return [history.name for history in read_histories(paths)]

    store = tmp_path / "store"
    assert names(store) == ["kafka/20230407T120000.000+0000", "kafka/20230408T1", "queue/20230407T1"]
    assert names(store / "kafka") == ["20230407T120000.000+0000", "20230408T1"]
    assert names(store / "kafka" / "20230408T1") == names(store / "latest") == ["20230408T1"]
    assert names(store / "queue" / "20230407T1" / "history.edn") == ["20230407T1"]


@pytest.mark.parametrize("name", ["history.txt", "test.jepsen"])
def test_of_a_form_that_is_not_read_the_message_names_the_file_beside_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("0\t:invoke\t:poll\t[[:poll]]")
    with pytest.raises(UsageError, match=r"give the test's history\.edn"):
        read_histories([tmp_path / name])
    (tmp_path / "history.edn").write_text(TXN)
    with pytest.raises(UsageError, match=r"give .*history\.edn, which lies beside it"):
        read_histories([tmp_path / name])


_OK = ":index 0 :time 0 :process 0 :type :ok"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("7", "no event (a map)"),
        ("{:index 0 :type :ok :f :poll}", "no :process"),
        ("{:index 0 :process 0 :type :done :f :poll}", ":type :done, not :invoke"),
        ("{:index 0 :process 0 :f :poll}", "no :type"),
        (f"{{{_OK} :f :poll}}", "completes what it never invoked"),
        ("{:process 0 :type :invoke :f :poll} {:process 0 :type :invoke :f :poll}", "while its operation before"),
        ("{:process 0 :type :invoke :f :poll :value 5}", ":value is 5, not a vector"),
        ("{:process 0 :type :invoke :f :send :value [[:sent 1 2]]}", "neither a [:send k v] nor a [:poll]"),
        ("{:process 0 :type :invoke :f :send :value [[:send 1 [:zero 2]]]}", "an offset is :zero"),
        ("{:process 0 :type :invoke :f :poll :value [[:poll {1 [[0]]}]]}", "no [offset value] of a poll"),
        ("{:process 0 :type :invoke :f :poll :value [[:poll [1]]]}", "no map of what a poll read"),
        ("{:index :x :process 0 :type :invoke :f :poll}", ":index is :x"),
        ("{:process 0 :type :invoke}", "no :f"),
    ],
)
def test_a_wrong_event_is_one_line_with_its_place(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        import_text("h", f"\n{text}")

    assert str(error.value).startswith("h:2: ")
    assert said in str(error.value)
    assert str(error.value).endswith("Jepsen's Kafka histories are wanted (jepsen.tests.kafka)")
