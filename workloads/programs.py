"""What a worker does whose client is a program of its own: it journals what the program may do, and what it tells.

A producer's program gets the records of the load's whole duration at its rate, all of them journalled before it starts;
the next one takes over when it has sent them. A worker's program writes to one topic, and the workers share the topics
out among them.
"""

import asyncio
import random
from collections.abc import Sequence

from harness.ports.cluster import Event, Journal, TopicPartition
from harness.ports.membership import GroupEvent, GroupJournal
from harness.ports.programs import Polled, ReadsByItself, SendsByItself

HEARD_S = 0.25
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


class ProgramsLife:
    """A group's member: polls and commits on its own, until it is time to leave."""

    def __init__(self, program: ReadsByItself, journal: GroupJournal, topics: Sequence[str]) -> None:
        self._program = program
        self._journal = journal
        self._topics = topics

    async def stay(self, chance: random.Random, until: Event, leaves: float) -> bool:
        """False if the program ended earlier. It takes a while to start: its stay begins with what it tells first."""
        loop = asyncio.get_running_loop()
        stay_s, leaves = leaves - loop.time(), float("inf")
        await self._program.join(self._topics)
        self._journal.done("subscribe", count=len(self._topics))
        while not until.is_set() and loop.time() < leaves:
            told = await self._program.told(timeout_s=HEARD_S)
            self._note(told)
            if self._program.has_ended:
                return False
            if told and leaves == float("inf"):
                leaves = loop.time() + stay_s
        return True

    async def before_a_crash(self) -> None:
        """Does nothing: it is in the midst of its work anyway."""

    def hear(self) -> None:
        self._note(self._program.take())

    def _note(self, told: Sequence[Polled | GroupEvent]) -> None:
        for each in told:
            if isinstance(each, Polled):
                self._journal.polled(each.records, begin_ns=each.begin_ns, end_ns=each.end_ns)
            else:
                self._journal.group_event(each)
