"""Acknowledged below min.insync.replicas: acks=all was answered while fewer replicas were in sync than are demanded.

A promise broken without a loss. It is judged only for records that were sent after the leader itself knew of the shrink
(it asked for it, or its own metadata showed it: KIP-497 lets leaders ask, KRaft's controller shrinks by itself) and
that were answered before the next expansion was committed, with a margin for one that is being asked for: a leader
counts whom it has asked to take in. Where nothing shows that the leader knew, the finding is left open.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as sf

from harness.checks.findings import Finding, RunContext
from harness.checks.rulings import Cause, Doubt, min_isr_setting
from harness.checks.runs import Runs
from harness.checks.story import PartitionStory, holds_up
from harness.checks.survival import LEARN_NS
from harness.checks.tables import Row
from harness.checks.wording.rulings import doubt_words
from harness.checks.wording.words import plural, ranges
from harness.history.incarnations import client_name
from harness.scenario import Scenario

CHECK = "acknowledged-below-min-isr"
MIN_ISR_KEY = "min.insync.replicas"
_PENDING_NS = 10**8  # an expansion that is asked for is committed within this, where nothing holds up the leader
_ASKED_BEFORE_NS = 10**9  # a leader's word that it shrinks the ISR comes before the commit
_FAR = 2**62
_ROWS_MAX = 10_000


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """A stretch of time in which the leader knew of too few in-sync replicas; knew: whether anything shows that."""

    run: int
    tp: int
    begin_t: int
    end_t: int
    epoch: int
    leader: int
    isr: tuple[int, ...]
    least: int
    knew: bool


def query(runs: Runs) -> list[Row]:
    observed = {story.run: by_place(runs.tables.rows("partition_states", story.run)) for story in runs.stories}
    settings = {
        story.run: LeastInSync(story.scenario, runs.tables.rows("configuration", story.run)) for story in runs.stories
    }
    shortages = [
        shortage
        for story in runs.stories
        for partition in story.partitions.values()
        for shortage in shortages_of(
            partition, settings[story.run], observed[story.run].get((partition.topic, partition.part), ())
        )
    ]
    if not shortages:
        return []
    columns = {"run": pa.int32(), "tp": pa.int32(), "begin_t": pa.int64(), "end_t": pa.int64(), "number": pa.int32()}
    rows = [
        {"run": s.run, "tp": s.tp, "begin_t": s.begin_t, "end_t": s.end_t, "number": number}
        for number, s in enumerate(shortages)
    ]
    found = (
        runs.tables.records.where("kind = 0 and status = 0 and acks = -1 and off is not null")
        .select("run", "tp", "value", "off", "op", "process", "t0", "t1")
        .join(sf.broadcast(runs.frame(columns, rows)), ["run", "tp"])
        .where("t0 > begin_t and t1 < end_t")
    )
    answered = found.orderBy("run", "tp", "off").limit(_ROWS_MAX).toArrow().to_pylist()
    return [{**row, "shortage": shortages[row["number"]]} for row in answered]


def by_place(rows: Iterable[Row]) -> dict[tuple[str, int], list[Row]]:
    grouped: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row["topic"], row["part"]), []).append(row)
    return grouped


def shortages_of(partition: PartitionStory, settings: "LeastInSync", own: Sequence[Row]) -> list[Shortage]:
    """`own`: what was observed of this partition."""
    found = []
    for number, state in enumerate(partition.states):
        isr = tuple(state["isr"] or ())
        begin = state["t"] + (state["uncertainty_ns"] or 0)
        after = partition.states[number + 1] if number + 1 < len(partition.states) else None
        end = _FAR if after is None else _end(partition, state, after)
        if state["leader"] < 0 or not state["exact"] or begin >= end:
            continue
        for first, last in _pieces(settings, partition.topic, begin, end):
            # What was lowered later had not been asked for yet; a raise may not have been heard of.
            least = settings.of(partition.topic, begin, last + LEARN_NS - 1)
            # Brokers demand no more than there are.
            least = min(least, len(state["replicas"] or partition.replicas) or least)
            if len(isr) >= least:
                continue
            known = _known_at(partition, state, own, least)
            known = last if known is None else min(last, max(first, known))
            found += [
                Shortage(run=partition.run, tp=partition.tp, begin_t=since, end_t=until, epoch=state["leader_epoch"],
                         leader=state["leader"], isr=isr, least=least, knew=knew)
                for since, until, knew in ((first, known, False), (known, last, True))
                if since < until
            ]  # fmt: skip
    return found


def _pieces(settings: "LeastInSync", topic: str, begin: int, end: int) -> list[tuple[int, int]]:
    """The stretch, cut a moment before each change of the setting: what was answered by then was answered before it."""
    changes = {t - LEARN_NS for t in settings.changes(topic, begin + LEARN_NS, end + LEARN_NS)}
    return list(pairwise([begin, *sorted(changes), end]))


def _end(partition: PartitionStory, state: Row, after: Row) -> int:
    """Before the next state; where that one takes somebody in, before it can have been asked for."""
    end = int(after["t"] - (after["uncertainty_ns"] or 0))
    if len(after["isr"] or ()) <= len(state["isr"] or ()):
        return end
    faults = partition.faults_between(state["t"], end)
    held_up = [row["t_begin"] for row in faults if holds_up(row, state["leader"])]
    return int(min([end, *held_up])) - _PENDING_NS


def _known_at(partition: PartitionStory, state: Row, observed: Iterable[Row], least: int) -> int | None:
    """When the leader is first seen to know of so small an ISR; None where nothing shows it."""
    begin = state["t"] - (state["uncertainty_ns"] or 0)
    told = [
        row["t"]
        for row in observed
        if not row["exact"] and row["observer"] == state["leader"] and row["leader_epoch"] == state["leader_epoch"]
        and row["leader"] == state["leader"] and row["t"] >= begin and len(row["isr"] or ()) < least
    ]  # fmt: skip
    asked = [
        row["t"]
        for row in partition.events
        if row["event"] == "isr_shrink" and row["node"] == state["leader"] and row["t"] >= begin - _ASKED_BEFORE_NS
    ]
    election = partition.election_of(state["leader_epoch"])
    if election is not None and election.t == state["t"]:  # it was elected with this ISR
        asked += [
            row["t"]
            for row in partition.events
            if row["event"] == "leadership_start" and (row["node"], row["epoch"]) == (election.leader, election.epoch)
        ]
    return min([*told, *asked], default=None)


class LeastInSync:
    """min.insync.replicas of a run's topics over time."""

    def __init__(self, scenario: Scenario | None, configuration: Sequence[Row]) -> None:
        self._scenario = scenario
        rows = sorted((row for row in configuration if row["key"] == MIN_ISR_KEY), key=lambda row: row["t"])
        self._general = _Changes(row for row in rows if row["scope"] != "topic")
        self._of_topic: dict[str, _Changes] = {}
        for topic in {row["name"] for row in rows if row["scope"] == "topic"}:
            self._of_topic[topic] = _Changes(row for row in rows if row["scope"] == "topic" and row["name"] == topic)

    def of(self, topic: str, begin: int, end: int) -> int:
        """The lowest in force at any moment of [begin, end]: nobody is held to more than that."""
        specs = self._scenario.topics if self._scenario is not None else ()
        own_spec = next((spec.settings.get(MIN_ISR_KEY) for spec in specs if spec.name == client_name(topic)), None)
        own = self._of_topic.get(topic, _NO_CHANGES).in_force(own_spec, begin, end)
        brokers_spec = self._scenario.cluster.settings.get(MIN_ISR_KEY) if self._scenario is not None else None
        general = self._general.in_force(brokers_spec, begin, end)
        fallback = min((value for value in general if value is not None), default=1)
        return min(fallback if value is None else value for value in own)

    def changes(self, topic: str, begin: int, end: int) -> Sequence[int]:
        """When it was changed, for the topic or for all, after `begin` and before `end`."""
        own = self._of_topic.get(topic, _NO_CHANGES)
        return [*self._general.between(begin, end), *own.between(begin, end)]


class _Changes:
    """Of one setting, in order of time."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = list(rows)
        self._times = [row["t"] for row in self._rows]

    def in_force(self, stated: Any, begin: int, end: int) -> list[int | None]:
        """The values that held at some moment of the stretch; None: none was set then."""
        place = bisect_right(self._times, begin)
        # The books' first word may be a change of what the scenario had set.
        first = self._rows[place - 1]["value"] if place else stated
        within = {row["value"] for row in self._rows[place : bisect_right(self._times, end)]}
        return [int(value) if value is not None and str(value).isdigit() else None for value in (first, *within)]

    def between(self, begin: int, end: int) -> Sequence[int]:
        """Times, without both ends."""
        return self._times[bisect_right(self._times, begin) : bisect_left(self._times, end)]


_NO_CHANGES = _Changes(())


def find(context: RunContext) -> list[Finding]:
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in context.rows.get(CHECK, ()):
        groups.setdefault((row["tp"], row["number"]), []).append(row)
    return [_finding(context, context.partition(tp), rows) for (tp, _), rows in sorted(groups.items())]


def broken_promises(context: RunContext) -> Mapping[tuple[int, int], Shortage]:
    """(tp, value) of records that were surely acknowledged below min.insync.replicas: nothing excuses their loss."""
    rows = context.rows.get(CHECK, ())
    return {(row["tp"], row["value"]): row["shortage"] for row in rows if row["shortage"].knew}


def _finding(context: RunContext, story: PartitionStory, rows: Sequence[Row]) -> Finding:
    shortage: Shortage = rows[0]["shortage"]
    count = plural(len(rows), "record")
    sentence = (
        f"{count} of {story.name} (at {ranges(row['off'] for row in rows)}) {plural(len(rows), 'was')} acknowledged "
        f"with acks=all by broker {shortage.leader} in epoch {shortage.epoch} while the ISR was {list(shortage.isr)} "
        f"and min.insync.replicas={shortage.least}"
    )
    doubt = None if shortage.knew else Doubt(code="leader-may-not-have-known")
    why = f": {doubt_words(doubt)}" if doubt is not None else ""
    return Finding(
        run=context.run, check=CHECK, classification="violation" if shortage.knew else "observation",
        kind="knowing" if shortage.knew else "unknowing", topic=story.topic, part=story.part, count=len(rows),
        sentence=f"{sentence}{why}.",
        cause=Cause(code="min-insync-replicas-not-kept", doubt=doubt, settings=(min_isr_setting(shortage.least),)),
        epoch=shortage.epoch, offsets=[row["off"] for row in rows], values=[row["value"] for row in rows],
        operations=sorted({row["op"] for row in rows}), t_first=min(row["t1"] for row in rows),
        t_last=max(row["t1"] for row in rows), open_question=doubt is not None,
        evidence={"leader": shortage.leader, "isr": list(shortage.isr), "min_insync_replicas": shortage.least},
    )  # fmt: skip
