"""A group's own partition of __consumer_offsets: which one it is.

Recorded are the states of those partitions that the run's own groups belong to.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.contract.coordinators_log import number_of
from harness.checks.contract.deposed import READ_AHEAD_NS
from harness.checks.findings import RunContext
from harness.checks.model.partition_history import PartitionHistory, RunHistory
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC
from harness.history.schema.internal_rows import CONSUMER_OFFSETS, ConsumerOffsetsRow


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What a coordinator had stored of a group, when it was asked to and had answered, and when that was found gone.

    partition: of the group's input. offset: the committed one. generation: the one that was told; with neither, any
    offset. shown_ns: it was still told then. expires: expiry would explain what was found. asked_ns, process: by whom.
    """

    group: str
    partition: PartitionHistory
    sent_ns: int
    stored_ns: int
    gone_ns: int
    offset: int | None = None
    generation: int | None = None
    shown_ns: int | None = None
    expires: bool = False
    asked_ns: int | None = None
    process: int | None = None


def kept_generation(
    partition: PartitionHistory, *, group: str, generation: int, told_ns: int, gone_ns: int, process: int
) -> Kept:
    """Of a generation that a member was told, and that `process` shows to be gone; the coordinator had stored it."""
    return Kept(
        group=group,
        partition=partition,
        sent_ns=told_ns - READ_AHEAD_NS,
        stored_ns=told_ns,
        gone_ns=gone_ns,
        generation=generation,
        expires=True,
        process=process,
    )


def partition_of_group(context: RunContext, group: str) -> PartitionHistory | None:
    """None: its states were not recorded, or which of several it is is not known."""
    return place_of_group(context.history, context.tables[CONSUMER_OFFSETS], group)


def place_of_group(history: RunHistory, rows: Sequence[ConsumerOffsetsRow], group: str) -> PartitionHistory | None:
    """rows: the run's."""
    scenario = history.scenario
    number = number_of(
        history,
        GROUP_OFFSETS_TOPIC,
        group,
        {row["partition"] for row in rows if row["group"] == group},
        is_the_runs=scenario is None or scenario.workload.facts.group in ("", group),
    )
    return None if number is None else history.internal.get((GROUP_OFFSETS_TOPIC, number))
