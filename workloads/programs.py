"""What a worker does whose client is a program of its own: it journals what the program may do, and what it tells.

A producer's program gets the records of the load's whole duration at its rate, all of them journalled before it starts;
the next one takes over when it has sent them. A worker's program writes to one topic, and the workers share the topics
out among them.
"""

from collections.abc import Sequence

from harness.ports.cluster import Event, Journal, TopicPartition
from harness.ports.programs import SendsByItself

RECORDS_MAX = 20_000  # that are journalled beforehand


def topic_of(partitions: Sequence[TopicPartition], place: int) -> list[TopicPartition]:
    """The partitions of the topic that the worker at this place, counted from 0, writes to."""
    topics = sorted({each.topic for each in partitions})
    return [each for each in partitions if each.topic == topics[place % len(topics)]]


async def let_send(
    program: SendsByItself,
    journal: Journal,
    partitions: Sequence[TopicPartition],
    *,
    batch: int,
    records_per_second: float,
    for_s: float,
    until: Event,
) -> None:
    """batch: the records of an operation. for_s: as long as the program's records last."""
    at_most = min(RECORDS_MAX, max(batch, round(records_per_second * for_s)))
    planned = program.planned(partitions, process=journal.process, records=at_most)
    batches = [planned[start : start + batch] for start in range(0, len(planned), batch)]
    operations = [journal.invoke("send", records) for records in batches]
    async for number, outcomes in program.run(batches, records_per_second=records_per_second, until=until):
        journal.complete_send(operations[number], outcomes)
