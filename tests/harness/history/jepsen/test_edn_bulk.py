"""The bulk reader and the plain reader give the same tables, or the same error message."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.errors import HarnessError
from harness.history.jepsen import edn_bulk, skeletons
from harness.history.jepsen.edn_bulk import NotInBulk, blocks_of
from harness.history.jepsen.edn_reader import read_text
from harness.history.jepsen.imported import ImportedHistory
from harness.history.jepsen.jepsen_import import import_events, import_text
from harness.history.jepsen.operations_in_bulk import import_in_bulk
from harness.history.jepsen.skeletons import Skeletons


class _Spelled:
    """A history of a few operations in one of its many possible notations."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._odd = self._random.choice([0.0, 0.0, 0.1, 0.5])
        self._fields = ["index", "time", "type", "process", "f", "value"]
        if self._chance(0.5):
            self._random.shuffle(self._fields)
        self._gap = self._random.choice([", ", ", ", " "])
        self._between = self._random.choice([" ", " ", ", ", ","])
        self._tag = self._random.choice(["", "", "#jepsen.history.Op", "#jepsen.history.Op "])
        self._open: dict[int, str] = {}
        lines = [line for _ in range(self._random.randint(0, 14)) for line in self._lines()]
        self.text = "\n".join(lines)
        if self._chance(0.3):
            self.text = f"[{self.text}]" + self._random.choice(["", "\n", " ; end ]"])

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _rather(self, usual: str, *odd: str) -> str:
        return self._random.choice(odd) if self._chance(self._odd) else usual

    def _number(self) -> str:
        usual = str(self._random.choice([0, 1, 2, 3, 7, 10**6, 3298534895815, 10**18 - 1]))
        large = str(10**18), str(4 * 10**18), str(-(10**18))
        return self._rather(
            usual,
            *large,
            "-1",
            "-0",
            "+3",
            "007",
            "5N",
            "1.5",
            "1/2",
            "nil",
            "true",
            ":a",
            '"b"',
            '"]}, :f"',
            "\\]",
            "[1]",
            "x",
            "",
        )

    def _key(self) -> str:
        return self._rather(str(self._random.randrange(12)), ":x", '"x"', "nil", "1.0", "[1 2]")

    def _pairs(self) -> str:
        pairs = [f"[{self._number()} {self._number()}]" for _ in range(self._random.randint(0, 3))]
        return "[" + self._rather(" ", "  ", ", ", "").join(pairs) + "]"

    def _polled(self, keys: int) -> str:
        reported = self._between.join(f"{self._key()} {self._pairs()}" for _ in range(keys))
        return self._rather(
            f"[:poll {{{reported}}}]", f"[:poll [{reported}]]", f"[:poll  {{{reported}}} ]", "[:poll nil]", "[:pull]"
        )

    def _value(self, f: str, *, done: bool) -> str:
        micro = []
        for _ in range(self._random.choice([1, 1, 1, 2, 3, 0])):
            if (f == "send") != self._chance(0.4 if f == "txn" else 0.05):
                sent = f"[{self._number()} {self._number()}]" if done else self._number()
                micro.append(f"[:send {self._key()} {sent}]")
            else:
                micro.append(self._polled(self._random.choice([0, 1, 2, 9])) if done else "[:poll]")
        return self._rather(f"[{' '.join(micro)}]", "nil", "[]", "5", f"({' '.join(micro)})")

    def _map(self, process: int, kind: str, f: str, value: str, more: str) -> str:
        entries = {
            "index": self._number(),
            "time": self._number(),
            "type": f":{kind}",
            "process": str(process),
            "f": f":{f}",
            "value": value,
        }
        fields = [f":{name} {entries[name]}" for name in self._fields if not self._chance(self._odd / 10)]
        return f"{self._tag}{{{self._gap.join(fields)}{more}}}"

    def _lines(self) -> Iterator[str]:
        if self._chance(self._odd):
            yield self._random.choice(
                [
                    "",
                    "  ",
                    "; [ not read",
                    "#_ {:index 3}",
                    "#_",
                    "{:process :nemesis :type :info :f :kill}",
                    '"\n"',
                    "{:process 3",
                    "]",
                    "[{:process 4 :type :invoke :f :crash}]",
                    ",,",
                    "\\]",
                ]
            )
        process = self._random.randrange(3)
        more = self._rather(
            "",
            ", :error :timeout",
            ", :batch? true",
            ', :error [:unknown "x"]',
            ", :error :a, :error :b",
            " ",
            ", :batch? true, :error :a, :batch? true",
            ", :rebalance-log [{:type :lost :keys [1]}]",
            ", :seek-to-beginning? true",
            ", :error nil",
        )
        if process in self._open and not self._chance(self._odd / 10):
            f = self._open.pop(process)
            value = "[1 2]" if f in ("assign", "subscribe") else self._value(f, done=self._chance(0.9))
            yield self._map(process, self._random.choice(["ok", "ok", "ok", "fail", "info"]), f, value, more)
        else:
            f = self._random.choice(
                ["send", "poll", "txn", self._rather("poll", "assign", "subscribe", "crash", "debug")]
            )
            self._open[process] = f
            value = "[1 2]" if f in ("assign", "subscribe") else self._value(f, done=self._chance(0.05))
            yield self._map(process, "invoke", f, value, self._rather("", more))


def _as_rows(history: ImportedHistory) -> dict[str, Any]:
    tables = {name: table.to_pydict() for name, table in history.tables.items()}
    beside = ("keys", "values", "process_order", "read_order", "last_ok", "first_read", "wide_reads", "wide_writes")
    return tables | {name: repr(getattr(history, name)) for name in beside}


def _plainly(text: str) -> ImportedHistory | str:
    try:
        return import_events("h", ((f"h:{line}", event) for line, event in read_text(text, place="h")))
    except HarnessError as error:
        return str(error)


def _in_bulk(text: str) -> ImportedHistory | None:
    try:
        return import_in_bulk("h", text.encode(), place="h")
    except (NotInBulk, HarnessError):
        return None


def _agree(text: str) -> None:
    plain, bulk = _plainly(text), _in_bulk(text)
    if bulk is not None:
        assert not isinstance(plain, str), f"taken in bulk, but: {plain}"
        assert _as_rows(bulk) == _as_rows(plain)


_SEEDS = st.integers(min_value=0, max_value=(1 << 62))


@given(_SEEDS)
@settings(deadline=None, max_examples=300)
@example(4)
def test_a_history_read_in_bulk_is_the_one_that_is_read_plainly(seed: int) -> None:
    _agree(_Spelled(seed).text)


@given(_SEEDS, st.data())
@settings(deadline=None, max_examples=300)
def test_a_history_that_is_spoilt_is_refused_in_bulk_if_it_is_plainly(seed: int, data: st.DataObject) -> None:
    text = _Spelled(seed).text
    for _ in range(data.draw(st.integers(min_value=1, max_value=2))):
        at = data.draw(st.integers(min_value=0, max_value=len(text)))
        put = data.draw(
            st.sampled_from(["", "[", "]", "{", "}", " ", ",", "0", "-", '"', ";", "\n", "#_", ":", "s", "p"])
        )
        text = text[:at] + put + text[at + data.draw(st.integers(min_value=0, max_value=3)) :]
    _agree(text)


@pytest.mark.parametrize(
    "value",
    [
        "[[:poll {1 [[0 1}]]]]",
        "[[:poll {1 [[0 1]}]]]",
        "[[:poll {1 [[0 1]]]}]",
        "[[:poll {1 []]}]",
        "[[:poll {]}]",
        "[[:poll {1 [[0 1]]}}]",
        "[[:send 1 [0 1}]]",
        "[[:poll {1 [[0 1]] 1 []}]]",
        "[[:poll {1 2}]]",
        "[[:poll {1}]]",
        "[[:poll {[] 1}]]",
        "[[:poll {1 [[0 1 2]]}]]",
        "[[:send 1]]",
        "[[:send 1 2 3]]",
        "[{:poll 1}]",
        "[[:poll {}}]",
    ],
)
def test_brackets_that_do_not_fit_are_reported_by_the_plain_reader(value: str) -> None:
    head = ":index 0, :time 0, :process 0, :f :poll"
    text = f"{{{head}, :type :invoke, :value [[:poll]]}}\n{{{head}, :type :ok, :value {value}}}"
    plain = _plainly(text)

    assert isinstance(plain, str)
    with pytest.raises(HarnessError) as error:
        import_text("h", text)
    assert str(error.value) == plain


REGULAR = """
{:index 0, :time 5, :type :invoke, :process 0, :f :send, :value [[:send 3 7]]}
#jepsen.history.Op{:process 1, :type :invoke, :f :poll, :value [[:poll]], :index 1, :time 6}
{:index 2, :time 8, :type :ok, :process 0, :f :send, :value [[:send 3 [0 7]]], :batch? true}
#jepsen.history.Op{:process 1, :type :ok, :f :poll, :value [[:poll {3 [[0 7]], 4 []}]], :index 3, :time 9, :error :late}
"""


@pytest.mark.parametrize("text", [REGULAR, f"[{REGULAR}]"])
def test_lines_as_jepsen_prints_them_need_no_plain_reader(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edn_bulk, "read_text", None)
    history = import_in_bulk("h", text.encode(), place="h")

    assert [row["offset"] for row in history.tables["records"].to_pylist()] == [0, 0]
    assert [row["error"] for row in history.tables["operations"].to_pylist()] == [None, ":late"]


def test_among_regular_lines_only_the_odd_ones_are_read_plainly() -> None:
    text = f"; a comment of 7\n{REGULAR}{{:process :nemesis, :type :info, :f :kill, :value nil}}\n"
    (block,) = blocks_of(text.encode(), Skeletons(), place="h")

    assert block.position.tolist() == [0, 1, 2, 3]
    assert [(position, len(event)) for position, event in block.odd] == [(4, 4)]


def test_of_lines_that_differ_in_index_and_time_alone_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(text: str, **options: Any) -> Iterator[tuple[int, Any]]:
        read.append(text)
        return read_text(text, **options)

    monkeypatch.setattr(edn_bulk, "read_text", counted)
    text = "\n".join(
        f"{{:index {2 * i + done}, :time {7 * i}, :type :{kind}, :process 3, :f :subscribe, :value [1 2]}}"
        for i in range(100)
        for done, kind in enumerate(("invoke", "ok"))
    )
    history = import_in_bulk("h", text.encode(), place="h")

    assert len(read) == 2
    assert [row["completed_ns"] for row in history.tables["operations"].to_pylist()] == [7 * i for i in range(100)]
    _agree(text)


@pytest.mark.parametrize(
    "fields",
    [
        ':time 4, :error ":index 7 "',
        ':error ":index 7 , :time 5 "',
        ":index 7, :error {:time 5 }",
        ":index 7, :error [:time 5 ]",
        ":time 5 :index 7 #_ :index 8",
        ":index 7 :index/time 5 ",
        ":index 7, :time 5 ; :time 6 }",
        ":index 7 :time 007",
        ":time 9 :index 7",
    ],
)
def test_what_only_looks_like_index_and_time_is_what_the_plain_reader_says(fields: str) -> None:
    def lines(process: int) -> str:
        return "".join(
            f"{{:type :{kind}, :process {process}, :f :subscribe, :value [1], {fields}}}\n" for kind in ("invoke", "ok")
        )

    _agree(lines(0) + lines(0))
    _agree(lines(0) + lines(0).replace("7", "17").replace("5", "15"))


def test_a_skeleton_is_read_once_however_many_its_lines_and_its_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(text: str, **options: Any) -> Iterator[tuple[int, Any]]:
        read.append(text)
        return read_text(text, **options)

    monkeypatch.setattr(skeletons, "read_text", counted)
    monkeypatch.setattr(edn_bulk, "read_text", None)
    lines = []
    for i in range(200):
        polled = f"{{3 [{' '.join(f'[{7 * i + j} {i}]' for j in range(1 + i % 7))}], {4 + i} []}}"
        lines += [
            f"{{:index {2 * i}, :time {i}, :type :invoke, :process {i % 9}, :f :poll, :value [[:poll]]}}",
            f"{{:index {2 * i + 1}, :time {i}, :type :ok, :process {i % 9}, :f :poll, :value [[:poll {polled}]]}}",
        ]
    history = import_in_bulk("h", "\n".join(lines).encode(), place="h")

    assert len(read) == 2
    assert history.tables["records"].num_rows == sum(1 + i % 7 for i in range(200))


def _as_one_map(numbers: str) -> str:
    head = ":index {}, :time 0, :process 0, :f :poll"
    return (
        f"{{{head.format(0)}, :type :invoke, :value [[:poll]]}}\n"
        f"{{{head.format(1)}, :type :ok, :value [[:poll {{{numbers}}}]]}}"
    )


@pytest.mark.parametrize("keys", [1, 2, 8, 9, 40])
def test_keys_stand_in_the_order_of_clojures_maps_and_none_twice(keys: int) -> None:
    pairs = [f"{key} [[{key} {key}] [{key + 1} 7]]" for key in range(keys)]
    _agree(_as_one_map(", ".join(pairs)))
    (block,) = blocks_of(_as_one_map(", ".join(pairs)).encode(), Skeletons(), place="h")
    assert not block.odd
    _agree(f"{_as_one_map(', '.join(pairs[::-1]))}\n{_as_one_map(', '.join(pairs[: keys // 2]))}")
    _agree(_as_one_map(", ".join([*pairs, "0 []"])))
    assert _in_bulk(_as_one_map(", ".join([*pairs, "0 []"]))) is None


@pytest.mark.parametrize(
    "sent",
    [
        "[:send 1 [0 1] [1 2]]",
        "[:send 1 [[0 1] [1 2]]]",
        "[:send 1 [0 1]] [0 1]",
        "[:send [0 1] 5]",
        "[:send 1 007]",
        "[:send 1 0x7]",
        "[:send 1 7N]",
        "[:send 1 1000000000000000000]",
        "[:send 1 [1000000000000000000 5]]",
        "[:send 1000000000000000000 [0 5]]",
        "[:send 1 99999999999999999999999]",
        "[:send 1 -5]",
        "[:send -1 [0 -5]]",
        "[:send 1 [-0 +5]]",
        "[:send 1 6/3]",
        "[:send 1 \\7]",
        "[:send 1 [nil 5]]",
        "[:send 1 #{3 4}]",
        "[:send 1 #_7 8]",
        '[:send "7" 8]',
        "[:send :k7 8]",
    ],
)
def test_a_number_that_is_not_plainly_one_is_what_the_plain_reader_says(sent: str) -> None:
    for kind in ("ok", "info"):
        _agree(
            "{:index 0, :time -3, :process 0, :f :send, :type :invoke, :value [[:send 1 7]]}\n"
            f"{{:index 1, :time 4, :process 0, :f :send, :type :{kind}, :value [{sent}]}}"
        )


def test_of_an_operation_that_never_completed_the_invocation_is_read() -> None:
    invoked = "{:index 0, :time 5, :type :invoke, :process 3, :f :send, :value [[:send 3 7]]}"
    for text in (invoked, f"[{invoked}]", f"[\n{invoked}\n]"):
        history = _in_bulk(text)
        assert history is not None
        _agree(text)
        assert [row["completed"] for row in history.tables["records"].to_pylist()] == [False]
