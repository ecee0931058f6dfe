"""Kafka's frames in a stream of bytes: told by their headers, whatever the pieces in which they come."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness.cluster.simulated.frames import Frame, Frames

ALTER_PARTITION, FETCH = 56, 1


def request(api_key: int, correlation: int, body: bytes = b"") -> bytes:
    header = api_key.to_bytes(2, "big") + b"\0\0" + correlation.to_bytes(4, "big")
    return (len(header) + len(body)).to_bytes(4, "big") + header + body


def answer(correlation: int, body: bytes = b"") -> bytes:
    return (4 + len(body)).to_bytes(4, "big") + correlation.to_bytes(4, "big") + body


def fed(frames: Frames, *pieces: bytes) -> list[Frame]:
    return [frame for piece in pieces for frame in frames.feed(piece)]


def test_an_answer_is_known_by_the_request_that_it_belongs_to() -> None:
    requests = Frames(are_answers=False)
    answers = Frames(are_answers=True, asked=requests.asked)

    asked = fed(requests, request(ALTER_PARTITION, 7), request(FETCH, 8))
    answered = fed(answers, answer(8), answer(7), answer(7))

    assert [frame.api_key for frame in asked] == [ALTER_PARTITION, FETCH]
    assert [frame.api_key for frame in answered] == [FETCH, ALTER_PARTITION, None], "each request is answered once"


@given(
    bodies=st.lists(st.binary(max_size=40), min_size=1, max_size=6),
    cuts=st.lists(st.integers(0, 300), max_size=8),
)
def test_pieces_make_no_difference_and_no_byte_is_lost(bodies: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(request(FETCH, number, body) for number, body in enumerate(bodies))
    edges = sorted({0, len(whole), *(min(cut, len(whole)) for cut in cuts)})

    pieces = [whole[begin:end] for begin, end in pairwise(edges)]
    frames = fed(Frames(are_answers=False), *pieces)

    assert [frame.data for frame in frames] == [request(FETCH, number, body) for number, body in enumerate(bodies)]
    assert {frame.api_key for frame in frames} == {FETCH}


@given(st.binary(min_size=1, max_size=60))
def test_what_is_no_frame_is_passed_on_or_waits_for_its_end(data: bytes) -> None:
    frames = Frames(are_answers=False)

    passed = b"".join(frame.data for frame in frames.feed(data))

    assert data.startswith(passed)
    assert passed + b"".join(frame.data for frame in frames.rest()) == data, "the end of the stream takes all with it"
    if passed != data:
        size = int.from_bytes(data[len(passed) :][:4], "big")
        assert len(data) - len(passed) < 4 + size or len(data) - len(passed) < 4
