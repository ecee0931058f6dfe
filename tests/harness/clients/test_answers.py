"""The outcomes of one send operation: when each call was over, whatever thread the answer came in."""

from harness.clients.answers import Answers
from harness.ports.cluster import Send


def test_a_call_is_over_when_it_returned_or_was_answered_whichever_came_first() -> None:
    answers = Answers(
        [Send(topic="t", partition=0, value=b"%d" % place) for place in range(3)], acks="all", retried=True
    )
    answers.begin(0)
    answers.returned(0)
    answers.begin(1)
    answers.delivered(1, 1)  # by the library's own thread, before the call returned
    answers.returned(1)
    answers.begin(2)
    answers.delivered(0, 0)
    answers.refused(2, RuntimeError("full"))

    first, second, third = answers.outcomes(missing="no answer")

    assert (first.begin_ns or 0) <= (first.returned_ns or 0) <= (second.begin_ns or 0) <= first.end_ns
    assert (second.returned_ns, third.returned_ns) == (second.end_ns, third.end_ns)
