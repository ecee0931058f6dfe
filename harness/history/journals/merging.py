"""Combines journals' columns: what each numbered by itself gets the run's numbers. Uses numpy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.history.facts.values import ValueNames
from harness.history.journals.journal import Process
from harness.history.journals.journal_columns import FIELDS, NO_PARTITION, NO_WORD, NONE, JournalColumns

TopicPart = tuple[str, int]
_WORDS = ("word", "error", "member", "request")


@dataclass(frozen=True, kw_only=True)
class Merged:
    """columns: by the names of journal_columns.FIELDS. words: all strings except values, with their numbers."""

    columns: dict[str, dict[str, Any]]
    clients: list[Process]
    complete: list[bool | None]  # for each client: whether its journal is complete
    words: dict[str, int]
    partition_ids: dict[TopicPart, int]


def merged(journals: Sequence[JournalColumns], names: ValueNames, known: Sequence[TopicPart]) -> Merged:
    """In the order of the journals, which are consumed. `known`: topic-partitions that need not occur in
    any of them."""
    words: dict[str, int] = {}
    clients: list[Process] = []
    complete: list[bool | None] = []
    mentioned = {place for journal in journals for place in journal.places}
    partition_ids = {place: number for number, place in enumerate(sorted(mentioned.union(known)))}
    shifts = []
    operations = begun = transactions = 0
    for journal in journals:
        numbers = np.array([words.setdefault(word, len(words)) for word in journal.words.all()], np.int64)
        spoken = np.append(numbers, NO_WORD)
        of_place = np.array([partition_ids[place] for place in journal.places], np.int64)
        texts = np.array([names.number_of_text(text) for text in journal.texts.all()], np.int64)
        shifts.append(
            {
                "operation": operations,
                "begun": begun,
                "client": len(clients),
                "transaction": transactions,
                "partition_id": of_place,
                "of_tp": np.append(of_place, NO_PARTITION),
                "value": texts,
                "origin": texts,
                **dict.fromkeys(_WORDS, spoken),
            }
        )
        clients += journal.clients
        complete += [journal.is_complete] * len(journal.clients)
        operations += journal.operations_ended
        begun += journal.operations_begun
        transactions += journal.transactions_begun
    columns = {name: _column(name, fields, journals, shifts) for name, fields in FIELDS.items()}
    return Merged(columns=columns, clients=clients, complete=complete, words=words, partition_ids=partition_ids)


def _column(
    name: str, fields: Sequence[str], journals: Sequence[JournalColumns], shifts: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    width = len(fields)
    parts = [np.frombuffer(journal.columns.pop(name), np.int64).reshape(-1, width) for journal in journals]
    whole, start = np.empty((sum(map(len, parts)), width), np.int64), 0
    for part, shift in zip(parts, shifts, strict=True):
        rows = whole[start : start + len(part)]
        rows[:] = part
        start += len(part)
        for place, field in enumerate(fields):
            if field in shift:
                rows[:, place] = _shifted(field, rows[:, place], shift[field])
    return {field: whole[:, place] for place, field in enumerate(fields)}


def _shifted(field: str, column: Any, shift: Any) -> Any:
    match field:
        case "operation" | "begun" | "client":
            return column + shift
        case "transaction":
            return np.where(column >= 0, column + shift, column)
        case "value" | "origin":  # those below nothing are texts
            named = (column < 0) & (column != NONE)
            column[named] = shift[-1 - column[named]]
            return column
        case _:
            return shift[column]
