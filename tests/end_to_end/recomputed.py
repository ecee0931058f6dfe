"""What was lost, worked out from the journals alone by code that shares nothing with the checks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def journals(folder: Path) -> Iterator[tuple[dict[int, str], list[list[Any]]]]:
    """Per journal, the short numbers of its partitions and its lines."""
    for path in sorted(folder.glob("history/*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        if isinstance(lines[0], list):
            yield {line[1]: f"{line[2]}-{line[3]}" for line in lines if line[0] == "D"}, lines


def lost_records(folder: Path) -> set[tuple[str, int, int]]:
    """(partition, offset, value) acknowledged and not finally read. Knows the journals' lines and nothing else."""
    acknowledged: dict[tuple[str, int], int] = {}
    finally_read: set[tuple[str, int]] = set()
    for partitions, lines in journals(folder):
        sent: dict[int, list[Any]] = {}
        for tag, operation, *rest in lines:
            if tag == "I":
                sent[operation] = rest
            elif tag == "S":
                _, _, tps, values, *_ = sent[operation]
                for partition_id, value, status, offset in zip(tps, values, rest[1], rest[2], strict=True):
                    if status == 0:
                        acknowledged[partitions[partition_id], value] = offset
            elif tag == "R" and sent[operation][0] == "final_poll":
                for partition_id, _, _, values, *_ in rest[1]:
                    finally_read |= {(partitions[partition_id], value) for value in values}
    return {
        (partition_id, offset, value)
        for (partition_id, value), offset in acknowledged.items()
        if (partition_id, value) not in finally_read
    }
