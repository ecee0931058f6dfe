"""Frames are found however the stream is split; an invalid length is rejected at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.coordination.framing import FrameBuffer, frame
from reference_impl.coordination.jute import MalformedRecord


@given(payloads=st.lists(st.binary(max_size=20), max_size=5), cut=st.integers(1, 30))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(payloads: list[bytes], cut: int) -> None:
    stream = b"".join(frame(payload) for payload in payloads)
    buffer, found = FrameBuffer(), []
    for start in range(0, len(stream), cut):
        buffer.feed(stream[start : start + cut])
        found += list(buffer.frames())
    assert found == payloads


@pytest.mark.parametrize("length", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\x10\0\0"])
def test_an_absurd_length_is_malformed(length: bytes) -> None:
    buffer = FrameBuffer()
    buffer.feed(length)
    with pytest.raises(MalformedRecord):
        list(buffer.frames())
