"""The EDN parser reads everything that Jepsen writes, and reports invalid EDN in one line."""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.history.jepsen.edn_reader import (
    Character,
    Keyword,
    Symbol,
    Tagged,
    bytes_of,
    frozen,
    read_bytes,
    read_text,
    written,
)

X, INDEX = Keyword("x"), Keyword("index")


def values(text: str) -> list[Any]:
    return [value for _, value in read_text(text)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true", True),
        ("false", False),
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("12N", 12),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("0x1f", 31),
        ("-0x1F", -31),
        ("017", 15),
        ("2r101", 5),
        ("1.5", 1.5),
        ("-1e3", -1000.0),
        ("1.", 1.0),
        ("1.5M", Decimal("1.5")),
        ("3M", Decimal(3)),
        ("1/2", Fraction(1, 2)),
        ("4/2", 2),
        ("##Inf", float("inf")),
        ("##-Inf", float("-inf")),
        (":x", X),
        (":a.b/c-d?", Keyword("c-d?", "a.b")),
        ("seek-to", Symbol("seek-to")),
        ("a/b", Symbol("b", "a")),
        ("/", Symbol("/")),
        ("-", Symbol("-")),
        ("->x", Symbol("->x")),
        ('"a\\n\\"\\\\\\u0041\\101"', 'a\n"\\AA'),
        ('"two\nlines"', "two\nlines"),
        ("\\a", Character("a")),
        ("\\newline", Character("\n")),
        ("\\u0041", Character("A")),
        ("\\o101", Character("A")),
        ("\\;", Character(";")),
        ("[1 [2] []]", [1, [2], []]),
        ("(1 2)", (1, 2)),
        ("#{1 :x}", frozenset({1, X})),
        ("{}", {}),
        ("{:x 1, :index [0 1]}", {X: 1, INDEX: [0, 1]}),
        ("{[1 2] :x}", {(1, 2): X}),
        ("[[0 1] [2 3], [4 5]]", [[0, 1], [2, 3], [4, 5]]),
        ("[[0 1] [nil 3]]", [[0, 1], [None, 3]]),
        ("[[0 1.5] [2 3N]]", [[0, 1.5], [2, 3]]),
        ('#inst "2020-01-01"', Tagged("inst", "2020-01-01")),
        ("#jepsen.history.Op{:x 1}", {X: 1}),
        ("#jepsen.history/Op {:x 1}", {X: 1}),
        ('#object[a.B 0x2a "s"]', Tagged("object", [Symbol("a.B"), 42, "s"])),
        ("#error {:cause nil}", Tagged("error", {Keyword("cause"): None})),
        ("[1 #_ 2 3 #_{:x #_ 1 2}]", [1, 3]),
        ("#_ #_ 1 2 [3 4]", [3, 4]),
        ("; said first\n[1 ; inside\n2]", [1, 2]),
        ("[1,,2]", [1, 2]),
    ],
)
def test_each_notation_is_read_as_what_it_means(text: str, value: Any) -> None:
    found = values(f"[{text} :end]")

    assert found == [value, Keyword("end")]
    assert type(found[0]) is type(value)


def test_not_a_number_is_one() -> None:
    (found,) = values("##NaN ;")

    assert found != found


def test_one_map_a_line_and_one_vector_of_maps_are_the_same_history(tmp_path: Path) -> None:
    lines, vector = tmp_path / "lines.edn", tmp_path / "vector.edn"
    lines.write_text("{:index 0}\n\n{:index 1}\n")
    vector.write_text("; a history\n[{:index 0}\n {:index 1}]\n")

    assert list(read_bytes(bytes_of(lines), place=str(lines))) == [(1, {INDEX: 0}), (3, {INDEX: 1})]
    assert [value for _, value in read_bytes(bytes_of(vector), place=str(vector))] == [{INDEX: 0}, {INDEX: 1}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{:x 1\n :y", "text:1: { is never closed"),
        ("[1\n2}", "text:2: } where ] should close ["),
        ("1\n]", "text:2: ] closes nothing"),
        ("{:x}", "text:1: a map with a key that has no value"),
        ("{:x 1 :x 2}", "text:1: :x stands twice"),
        ("#{1 1}", "text:1: 1 stands twice"),
        ("12ab", "text:1: 12ab is no number"),
        ("08", "text:1: 08 is no number"),
        ("1/0", "divides by zero"),
        ('"open', "text:1: no EDN here"),
        ("\n\n  \\nosuch", "text:3: \\nosuch is no character"),
        ('"\\q"', "text:1: \\q is no escape"),
        ("::x", "text:1: ::x is no keyword"),
        ("#inst", "the text ends after"),
        ("@x", "text:1: no EDN here: '@x'"),
        ("#_", "the text ends after #_"),
        ("##Nope", "no EDN here"),
    ],
)
def test_what_is_no_edn_is_named_with_its_line_and_the_remedy(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        values(text)

    assert said in str(error.value)
    assert str(error.value).endswith("write the history as Jepsen does: one map a line, or one vector of maps")
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_read_is_one_line_too(tmp_path: Path) -> None:
    (tmp_path / "latin.edn").write_bytes(b'"\xff"')

    with pytest.raises(UsageError, match="is not UTF-8"):
        list(read_bytes(bytes_of(tmp_path / "latin.edn"), place=str(tmp_path / "latin.edn")))
    with pytest.raises(UsageError, match=r"nowhere\.edn cannot be read"):
        list(read_bytes(bytes_of(tmp_path / "nowhere.edn"), place=str(tmp_path / "nowhere.edn")))


_ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(),
    st.sampled_from([X, Keyword("b", "a"), Symbol("s")]),
    st.sampled_from(list('a;"\\ \n')).map(Character),
    st.floats(allow_nan=False),
    st.fractions().filter(lambda ratio: ratio.denominator > 1),
)
_VALUES = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from([X, INDEX, "k", 5, None]), inner, max_size=3),
    ),
    max_leaves=12,
)


@given(_VALUES)
def test_what_is_written_is_read_again(value: Any) -> None:
    (found,) = values(f"{written({'value': value})}\n")

    assert frozen(found["value"]) == frozen(value)
    assert written(found["value"]) == written(value)
