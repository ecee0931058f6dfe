"""Bytes, text and integer of a value identify the same record."""

from hypothesis import given
from hypothesis import strategies as st

from harness.history.facts import values
from harness.history.facts.values import ValueNames
from tests.outputs import decode_output

producers = st.integers(0, values.PRODUCER_MAX)
sequences = st.integers(0, (1 << values.SEQUENCE_BITS) - 1)


@given(producers, sequences, st.integers(0, 80))
def test_what_a_producer_sends_is_read_back_as_its_number(producer: int, sequence: int, size: int) -> None:
    encoded = values.encode(producer, sequence, size)

    assert len(encoded) >= size
    assert values.decode(encoded) == values.number(producer, sequence)
    assert values.text(values.number(producer, sequence)).encode() == encoded.rstrip(b".")


@given(st.binary(max_size=20))
def test_foreign_bytes_never_pass_for_a_producers_value(foreign: bytes) -> None:
    number = values.decode(foreign)

    if number is not None:
        assert foreign.rstrip(b".") == values.text(number).encode()


@given(st.lists(st.binary(max_size=12)))
def test_named_values_are_one_number_per_text_and_keep_it(foreign: list[bytes]) -> None:
    names = ValueNames()
    numbers = {value: names.number(value) for value in foreign}
    again = ValueNames(names.items())

    assert {value: again.number(value) for value in foreign} == numbers
    for value, number in numbers.items():
        if values.decode(value) is None:
            assert number >= values.NAMED_FROM
            assert values.text(number, dict(names.items())) == values.text_of_bytes(value)


topics = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)


@given(topics, st.integers(0, 500), st.integers(0, 1 << 50), producers, st.integers(1, 10_000))
def test_an_output_is_named_after_its_input(topic: str, partition: int, offset: int, process: int, count: int) -> None:
    value = values.encode_output(topic, partition, offset, process=process, count=count)

    assert decode_output(values.text_of_bytes(value)) == (topic, partition, offset)
    assert values.decode(value) is None


@given(st.text(max_size=20))
def test_another_name_is_no_outputs(name: str) -> None:
    decoded = decode_output(name)

    assert decoded is None or name.startswith(f"{decoded[0]}-{decoded[1]}-{decoded[2]}/")


def test_a_long_value_is_shown_cut_with_its_length() -> None:
    names = {values.NAMED_FROM: "x" * 900_000, values.NAMED_FROM + 1: "y" * values.SHOWN_MAX}
    shown = values.shown(values.NAMED_FROM, names)
    assert len(shown) < 150
    assert shown.endswith("(900000 characters)")
    assert values.shown(values.NAMED_FROM + 1, names) == "y" * values.SHOWN_MAX
    assert values.shown(values.number(3, 123), names) == "p3-000123"
