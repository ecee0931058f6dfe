"""Where a partition was said to end: what leaders answered the final read, in the table final_reads.

read_committed is answered the last stable offset, which are rows of their own.

An answer that is given again extends its row, so a row is a change; of very many changes the last replaces the one
before it.
"""

from collections.abc import Mapping
from typing import Any

from harness.controller.recorder import Recorder
from harness.history.schema.cluster_rows import FinalReadEvent
from harness.ports.clients import ReportsEvents
from harness.ports.cluster import Client, TopicPartition

CHANGES_MAX = 50  # rows of one partition


class AnsweredEnds:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._rows: dict[tuple[FinalReadEvent, TopicPartition], tuple[int, dict[str, Any]]] = {}
        self._leaders: dict[TopicPartition, tuple[int | None, int | None]] = {}

    def answered(
        self,
        client: Client,
        ends: Mapping[TopicPartition, int],
        *,
        event: FinalReadEvent,
        process: int,
        asked_ns: int,
        answered_ns: int,
        reached: Mapping[TopicPartition, int],
    ) -> None:
        """`reached`: how far the reader had come."""
        self._note_leaders(client)
        for partition, end in ends.items():
            node, epoch = self._leaders.get(partition, (None, None))
            number, row = self._rows.get((event, partition), (-1, {}))
            whose = {"node": node, "leader_epoch": epoch, "to_offset": end}
            if not row or any(row[name] != value for name, value in whose.items()):
                number = min(number + 1, CHANGES_MAX - 1)
                place = {"topic": partition.topic, "partition": partition.partition, "event": event}
                row = {**place, **whose, "process": process, "invoked_ns": asked_ns, "from_offset": 0}
            row |= {"completed_ns": answered_ns, "from_offset": max(row["from_offset"], reached.get(partition, 0))}
            self._rows[event, partition] = number, row
            self._write(event, partition)

    def reached(self, positions: Mapping[TopicPartition, int]) -> None:
        """How far the reader came after the last answer."""
        for partition, position in positions.items():
            _, row = self._rows.get(("end", partition), (-1, {}))
            if row and position > row["from_offset"]:
                row["from_offset"] = position
                self._write("end", partition)

    def _write(self, event: FinalReadEvent, partition: TopicPartition) -> None:
        number, row = self._rows[event, partition]
        self._recorder.write("final_reads", row, [event, partition.topic, partition.partition, number])

    def _note_leaders(self, client: Client) -> None:
        """Of the leaders that this client's metadata named the last ones: it asks them."""
        if isinstance(client, ReportsEvents):
            for event in client.take_events():
                if event.event == "leader" and event.topic is not None and event.partition is not None:
                    place = TopicPartition(topic=event.topic, partition=event.partition)
                    self._leaders[place] = event.node, event.epoch
