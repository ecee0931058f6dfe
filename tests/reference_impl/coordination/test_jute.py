"""Jute: encoded values can be decoded, and invalid bytes are rejected."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.coordination.jute import JuteReader, JuteWriter, MalformedRecord


@given(
    number=st.integers(-(2**31), 2**31 - 1),
    long=st.integers(-(2**63), 2**63 - 1),
    flag=st.booleans(),
    data=st.none() | st.binary(max_size=50),
    texts=st.lists(st.text(max_size=10), max_size=5),
)
def test_every_value_reads_back(number: int, long: int, flag: bool, data: bytes | None, texts: list[str]) -> None:
    writer = JuteWriter()
    writer.integer(number)
    writer.long(long)
    writer.boolean(flag)
    writer.buffer(data)
    writer.vector(texts, writer.string)
    reader = JuteReader(writer.data)
    assert (reader.integer(), reader.long(), reader.boolean(), reader.buffer()) == (number, long, flag, data)
    assert reader.vector(reader.string) == texts
    assert reader.remaining == 0


def test_numbers_are_big_endian_and_buffers_carry_their_length() -> None:
    writer = JuteWriter()
    writer.integer(258)
    writer.string("é")
    writer.buffer(None)
    assert writer.data == b"\0\0\1\2" + b"\0\0\0\2\xc3\xa9" + b"\xff\xff\xff\xff"


@pytest.mark.parametrize("data", [b"\0\0\0\5abc", b"\xff\xff\xff\xfe", b"\x7f\xff\xff\xff", b"\0\0"])
def test_a_length_that_does_not_fit_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedRecord):
        JuteReader(data).buffer()


def test_a_vector_of_a_billion_items_costs_nothing() -> None:
    reader = JuteReader(b"\x3f\xff\xff\xff\0\0")
    with pytest.raises(MalformedRecord):
        reader.vector(reader.string)


def test_text_that_is_not_utf_8_is_malformed() -> None:
    with pytest.raises(MalformedRecord):
        JuteReader(b"\0\0\0\1\xff").string()
