"""A Jepsen history that needs too many resources is refused in one line with its place."""

import contextlib
import tracemalloc
from pathlib import Path

import pytest

from harness.errors import HarnessError, UsageError
from harness.history.jepsen.edn_reader import NESTING_MAX, bytes_of, read_bytes, read_text, written
from harness.history.jepsen.jepsen_import import import_text, read_history
from harness.host import memory

DEEP = 20_000
DIGITS = "9" * 5_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[" * DEEP + "]" * DEEP, "nested more than 100 deep"),
        ("(" * DEEP + ")" * DEEP, "nested more than 100 deep"),
        ("#{" * DEEP + "}" * DEEP, "nested more than 100 deep"),
        ("{:a " * DEEP + "1" + "}" * DEEP, "nested more than 100 deep"),
        ("{" * DEEP + "1" + "}" * DEEP, "nested more than 100 deep"),
        ("#a " * DEEP + "1", "nested more than 100 deep"),
        ("#_ " * DEEP + "1", "nested more than 100 deep"),
        (DIGITS, "a number of more than 1000 digits"),
        (f"-{DIGITS}", "a number of more than 1000 digits"),
        (f"{DIGITS}N", "a number of more than 1000 digits"),
        (f"{DIGITS}/3", "a number of more than 1000 digits"),
        (f"0x{DIGITS}", "a number of more than 1000 digits"),
        (f"36r{DIGITS}", "a number of more than 1000 digits"),
        (f"1.{DIGITS}", "a number of more than 1000 digits"),
        (f"[[0 1] [2 {DIGITS}]]", "a number of more than 1000 digits"),
        ("1e99999999999999999999M", "beyond every number"),
    ],
)
def test_what_is_too_deep_or_too_long_is_one_line_with_its_place(text: str, expected: str) -> None:
    with pytest.raises(HarnessError) as error:
        list(read_text(f"nil\n{text}\n", place="history.edn"))

    assert expected in str(error.value)
    assert str(error.value).startswith("history.edn:2: ")
    assert len(str(error.value)) < 200


def test_as_deep_as_is_allowed_is_read() -> None:
    text = "(" * NESTING_MAX + ")" * NESTING_MAX

    assert [written(value) for _, value in read_text(f"nil {text}")] == ["nil", text]


def test_values_beside_each_other_are_not_deep() -> None:
    assert len(list(read_text("[[1] [2]] #_ 3 #a 4 " * NESTING_MAX))) == 2 * NESTING_MAX


def test_half_a_character_is_none() -> None:
    with pytest.raises(UsageError, match="half a character"):
        list(read_text(r"\ud800"))


def test_of_a_large_set_with_one_element_twice_that_is_named() -> None:
    elements = " ".join(map(str, [*range(30_000), 29_999]))

    with pytest.raises(UsageError, match="29999 stands twice"):
        list(read_text(f"#{{{elements}}}"))


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (":process 99999999999999999999", ":process is 99999999999999999999, more than 32 bits"),
        (":process 4294967296", ":process is 4294967296, more than 32 bits"),
        (":process 0, :index 99999999999999999999", ":index is 99999999999999999999, more than 62 bits"),
        (":process 0, :time -99999999999999999999", ":time is -99999999999999999999, more than 62 bits"),
        (":process 0, :f :poll, :value [[:poll {0 [[99999999999999999999 1]]}]]", "an offset is 9999999999"),
        (":process 0, :f :send, :value [[:send 0 [99999999999999999999 1]]]", "an offset is 9999999999"),
        (
            ":process 0, :f :debug-topic-partitions, :value {:partitions {0 {:end-offset 99999999999999999999}}}",
            "an end offset is 9999999999",
        ),
    ],
)
def test_a_number_that_no_kafka_has_is_one_line_with_its_place(event: str, expected: str) -> None:
    with pytest.raises(HarnessError) as error:
        import_text("history.edn", f"{{:type :invoke, :f :poll, :process 0}}\n{{:type :ok, {event}}}\n")

    assert str(error.value).startswith("history.edn:2: ")
    assert expected in str(error.value)


def test_a_value_of_any_size_is_a_value(tmp_path: Path) -> None:
    path = tmp_path / "h.edn"
    large = "9" * 900
    path.write_text(
        f"{{:type :invoke, :f :send, :process 0, :value [[:send 0 {large}]]}}\n"
        f"{{:type :ok, :f :send, :process 0, :value [[:send 0 [0 {large}]]]}}\n"
    )

    assert read_history(path).values == [int(large)]


def test_a_history_larger_than_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_allowed_mb", 256)
    path = tmp_path / "large.edn"
    with path.open("wb") as file:
        file.truncate(33 << 20)  # of nothing: not a byte of it lies on the disk

    with pytest.raises(HarnessError, match=r"large\.edn: its values would take about 264 MB .* give --memory-mb 264"):
        list(read_bytes(bytes_of(path), place=str(path)))


@pytest.mark.parametrize(
    "text",
    ['"' + "x" * 500_000 + '"', '"' + r"\n" * 250_000 + '"', '"' + "x" * 500_000, "; a remark\n" * 50_000 + "1"],
    ids=("text", "escapes", "no-end", "remarks"),
)
def test_a_long_text_takes_a_few_times_its_length_of_memory(text: str) -> None:
    tracemalloc.start()
    try:
        with contextlib.suppress(UsageError):
            list(read_text(text))
        assert tracemalloc.get_traced_memory()[1] < 20 * len(text)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "kind", ["[:ok]", "{:a 1}", "#{[1]}", "(nil)", "##NaN", "1e400", "#a {:b []}", ":" + "k" * 5000]
)
def test_whatever_stands_in_the_place_of_a_type_is_named_shortly(kind: str) -> None:
    with pytest.raises(UsageError, match=r"^h:1: the event has :type ") as error:
        import_text("h", f"{{:process 0, :type {kind}, :f :poll, :value nil}}")

    assert len(str(error.value)) < 250


@pytest.mark.parametrize(
    "text",
    [
        r'"\8"',
        '"\\\u00b2"',
        "\\" + "x" * 5000,
        "1" + "y" * 900,
        ":a/" + "/" * 5000,
        "#{" + 2 * (" {" + " ".join(f"{n} {n}" for n in range(3000)) + "}") + "}",
    ],
)
def test_what_is_wrong_is_shown_shortly_however_long_it_is(text: str) -> None:
    with pytest.raises(UsageError) as error:
        list(read_text(text, place="history.edn"))

    assert str(error.value).startswith("history.edn:1: ")
    assert len(str(error.value)) < 400
