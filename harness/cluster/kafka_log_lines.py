"""Extracts events of replicas from a broker's log: truncations, leaderships, ISR changes, damage, starts.

Kafka has no journal of these events, only log lines (kafka_log_patterns.py). Information that a line lacks, such as a
truncation's old log end, reason or epoch, is taken from earlier lines. A line cut short by a kill has no logger at its
end and is ignored.

Events have the names of the reference broker where it has them: truncation, leadership_start, leadership_end,
broker_start. Others: leadership_resumed (the same epoch after a restart), followership_start, isr_shrink, isr_expand,
isr_learned, isr_change_refused, isr_expand_refused, epoch_fenced, unclean_election, records_deleted,
high_watermark_lowered, log_recovery, corrupt_batch, broker_stopping, broker_stopped, broker_start_failed.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.cluster import node_files
from harness.cluster.kafka_log_patterns import FETCHERS, LINE, Fields, matches
from harness.host.clock import Anchor
from harness.ports.cluster import BrokerEvent, NodeId
from harness.scenario.topic_names import METADATA_TOPIC

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def read_log_lines(node: NodeId, path: Path, anchor: Anchor) -> list[BrokerEvent]:
    """Returns the events of one broker's log file; none if it does not exist. Its times must be UTC."""
    return events_of(node, node_files.lines(path), anchor)


def events_of(node: NodeId, lines: Iterable[str], anchor: Anchor) -> list[BrokerEvent]:
    reader = _Reader(node, anchor)
    for line in lines:
        if (match := LINE.fullmatch(line.rstrip("\r\n"))) is not None:
            for kind, fields in matches(match[3]):
                reader.take(match[1], kind, fields)
    return reader.events


@dataclass(kw_only=True)
class _Replica:
    """What earlier lines show of one replica. `end`: its log end, while nothing can have been appended."""

    epoch: int | None = None
    leads_in: int | None = None
    led_last_in: int = -1
    follows: bool = False
    end: int | None = None
    reason: str | None = None
    isr: frozenset[str] | None = None
    recovers: bool = False
    isr_refusals: dict[str, str] = field(default_factory=dict)  # refusals since the ISR last grew, by event

    def restarted(self) -> None:
        self.leads_in = self.end = self.reason = self.isr = None
        self.follows = self.recovers = False


class _Reader:
    """Processes one broker's lines in order."""

    def __init__(self, node: NodeId, anchor: Anchor) -> None:
        self._node = node
        self._anchor = anchor
        self._replicas: dict[tuple[str, int], _Replica] = {}
        self._t_ns = 0
        self._clean: bool | None = None
        self.events: list[BrokerEvent] = []
        self._of_replica: Mapping[str, Callable[[tuple[str, int], _Replica, Fields], None]] = {
            "leader": self._leads,
            "follower": self._follows,
            "asked": self._asked,
            "became": self._became,
            "loaded": self._loaded,
            "cutting": self._cutting,
            "cutting_to_high_watermark": self._cutting_to_high_watermark,
            "cutting_below_high_watermark": self._cutting_below_high_watermark,
            "out_of_range": self._out_of_range,
            "truncation": self._truncation,
            "old_truncation": self._old_truncation,
            "no_truncation": self._no_truncation,
            "restart_of_log": self._restart_of_log,
            "records_deleted": self._records_deleted,
            "high_watermark_lowered": self._high_watermark_lowered,
            "isr_shrink": self._isr_shrink,
            "isr_expand": self._isr_expand,
            "isr_updated": self._isr_updated,
            "isr_learned": self._isr_learned,
            "isr_change_refused": self._isr_change_refused,
            "isr_expand_refused": self._isr_expand_refused,
            "epoch_fenced": self._epoch_fenced,
            "unclean_election": self._unclean_election,
            "log_recovery": self._log_recovery,
            "corrupt_batch": self._corrupt_batch,
        }

    def take(self, time: str, kind: str, fields: Fields) -> None:
        wall = datetime.fromisoformat(time.replace(",", ".")).replace(tzinfo=UTC)
        self._t_ns = self._anchor.monotonic_from_wall((wall - _EPOCH) // _MICROSECOND * 1000)
        if kind == "fetcher":
            for spelling in FETCHERS:
                for match in spelling.finditer(fields["fetchers"]):
                    where = _partition(match["tp"])
                    self._fetches(where, self._replica(where), match.groupdict())
        elif kind in self._of_replica:
            where = _partition(fields["tp"])
            if where[0] != METADATA_TOPIC:
                self._of_replica[kind](where, self._replica(where), fields)
        else:
            self._of_broker(kind, fields)

    def _replica(self, where: tuple[str, int]) -> _Replica:
        return self._replicas.setdefault(where, _Replica())

    def _event(
        self, event: str, where: tuple[str, int] | None = None, *, node: int | None = None, **fields: Any
    ) -> None:
        """node: whom it is about, if not the broker whose log it is."""
        topic, partition = where or (None, None)
        who = self._node if node is None else NodeId(node)
        found = BrokerEvent(node=who, t_ns=self._t_ns, event=event, topic=topic, partition=partition, **fields)
        self.events.append(found)

    # -- the broker itself --------------------------------------------------------------------------------------------

    def _of_broker(self, kind: str, fields: Fields) -> None:
        if kind == "starting":
            self._clean = None
            for replica in self._replicas.values():
                replica.restarted()
        elif kind in ("clean_shutdown", "unclean_shutdown"):
            self._clean = kind == "clean_shutdown"
        elif kind == "started":
            self._event("broker_start", detail=json.dumps({"broker": self._node, "clean": self._clean}))
        elif kind == "start_failed":
            self._event("broker_start_failed", detail=fields["why"].strip(" .") or None)
        else:
            self._event({"stopping": "broker_stopping", "stopped": "broker_stopped"}[kind])

    # -- leading and following ----------------------------------------------------------------------------------------

    def _leads(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        epoch, offset = int(fields["epoch"]), _number(fields.get("offset"))
        self._leads_no_more(where, replica, offset, but_in=epoch)
        # A leader that returns in its own epoch continues with a longer log: the epoch did not start there.
        event = "leadership_start" if epoch > replica.led_last_in else "leadership_resumed"
        if replica.leads_in != epoch:
            high = f"high watermark {fields['high']}, " if fields.get("high") else ""
            detail = f"{high}ISR [{fields['isr']}]" if fields.get("isr") is not None else None
            self._event(event, where, epoch=epoch, from_offset=offset, detail=detail)
        replica.epoch = replica.leads_in = epoch
        replica.led_last_in = max(epoch, replica.led_last_in)
        replica.follows, replica.end, replica.reason = False, None, None
        replica.isr_refusals.clear()
        replica.isr = _members(fields["isr"]) if fields.get("isr") is not None else None

    def _leads_no_more(
        self, where: tuple[str, int], replica: _Replica, offset: int | None, *, but_in: int | None = None
    ) -> None:
        if replica.leads_in is not None and replica.leads_in != but_in:
            self._event("leadership_end", where, epoch=replica.leads_in, from_offset=offset)
            replica.leads_in = None

    def _follows(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        offset = _number(fields.get("offset"))
        self._leads_no_more(where, replica, offset)
        if fields.get("epoch"):
            replica.epoch = int(fields["epoch"])
        detail = f"high watermark {fields['high']}" if fields.get("high") else None
        self._event("followership_start", where, epoch=replica.epoch, from_offset=offset, detail=detail)
        replica.follows, replica.end, replica.reason, replica.isr = True, offset, None, None

    def _fetches(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        """Without an earlier line about following, fetching shows that the replica follows."""
        if fields.get("offset") is not None:
            replica.end = int(fields["offset"])
        elif replica.follows or replica.leads_in is not None:
            replica.end = None  # the log may have grown since its end was logged
        if not replica.follows:
            self._follows(where, replica, {"epoch": fields.get("epoch"), "offset": replica.end})

    def _asked(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        epoch = int(fields["epoch"])
        if replica.epoch is not None and epoch <= replica.epoch and (replica.follows or replica.leads_in is not None):
            return  # the broker will ignore the request
        replica.epoch = epoch
        if int(fields["leader"]) != self._node:
            self._leads_no_more(where, replica, None)
            if replica.follows:
                replica.follows, replica.end = False, None
        replica.isr = _members(fields["isr"])

    def _became(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        if replica.epoch is None:
            return  # the log file begins in the middle
        if fields["role"] == "leader":
            isr = None if replica.isr is None else ",".join(sorted(replica.isr))
            offset = None if replica.follows else replica.end  # no line shows what it has fetched since
            self._leads(where, replica, {"epoch": replica.epoch, "offset": offset, "isr": isr})
        else:
            if not replica.follows:
                self._follows(where, replica, {"offset": replica.end})

    # -- the log ------------------------------------------------------------------------------------------------------

    def _loaded(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        replica.end = int(fields["offset"])

    def _cutting(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        replica.reason = f"diverged: the leader's epoch {fields['epoch']} ends at {fields['end']}"

    def _cutting_to_high_watermark(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        replica.reason = "high watermark on becoming follower"

    def _cutting_below_high_watermark(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        replica.reason = f"{replica.reason or 'diverged'}; below its own high watermark {fields['high']}"

    def _out_of_range(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        replica.end, replica.reason = int(fields["offset"]), "leader's log ends earlier"

    def _truncation(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        self._cut(where, replica, int(fields["to"]), replica.reason or "diverged from the leader's log")

    def _old_truncation(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        """Before leader epochs followers truncated to their high watermark, or if the leader's log was shorter."""
        self._cut(where, replica, int(fields["to"]), replica.reason or "high watermark on becoming follower")

    def _cut(self, where: tuple[str, int], replica: _Replica, to: int, reason: str) -> None:
        if replica.end is None or replica.end > to:  # 0.9 and 0.10 log it even if the log ends there already
            self._event("truncation", where, epoch=replica.epoch, from_offset=replica.end, to_offset=to, reason=reason)
        replica.end, replica.reason = to, None

    def _no_truncation(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        """0.9 and 0.10 log this after a line that announces the truncation."""
        last = self.events[-1] if self.events else None
        truncation = ("truncation", *where, int(fields["to"]))
        if last is not None and (last.event, last.topic, last.partition, last.to_offset) == truncation:
            self.events.pop()
        replica.end, replica.reason = int(fields["last"]) + 1, None

    def _restart_of_log(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        end, to = int(fields["offset"]), int(fields["to"])
        if to > end:
            reason = "leader's log starts later than this one ends"
            self._event("truncation", where, epoch=replica.epoch, from_offset=end, to_offset=to, reason=reason)
            replica.end = to

    def _records_deleted(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        """Of the leader, which a client asked for it; followers take its log start over and say something else."""
        self._event("records_deleted", where, epoch=replica.epoch, to_offset=int(fields["to"]))

    def _high_watermark_lowered(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        offsets = {"from_offset": int(fields["before"]), "to_offset": int(fields["to"])}
        self._event("high_watermark_lowered", where, epoch=replica.epoch, **offsets)

    def _log_recovery(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        self._clean = False
        if not replica.recovers:  # otherwise it is the next segment
            self._event("log_recovery", where)
        replica.recovers = True

    def _corrupt_batch(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        self._event("corrupt_batch", where, to_offset=int(fields["to"]))
        replica.epoch = None  # it has no leader yet
        self._cut(where, replica, int(fields["to"]), "corrupt batch found in recovery")

    # -- the ISR ------------------------------------------------------------------------------------------------------

    def _isr_shrink(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        ends = f" ({fields['ends']})" if fields.get("ends") else ""
        change = f"{_shown(fields['before'])} -> {_shown(fields['after'])}"
        replica.isr_refusals.pop("isr_expand", None)
        self._once("isr_shrink", where, replica, change, change + ends)

    def _isr_expand(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        change = f"{_shown(fields['before'])} -> {_shown(fields['after'])}"
        if replica.isr_refusals.get("isr_expand") != change:
            replica.isr_refusals.clear()
        self._once("isr_expand", where, replica, change, change)

    def _isr_updated(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        """Newer brokers log only the completed expansion, not its beginning."""
        after = _members(fields["after"])
        if replica.isr is not None and after > replica.isr:
            self._isr_expand(where, replica, {"before": ",".join(sorted(replica.isr)), "after": fields["after"]})
        replica.isr = after

    def _isr_learned(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        """The controller changed the ISR, and the leader has heard of it; `to_offset`: its high watermark by then."""
        detail = json.dumps({"partition_epoch": int(fields["version"])})
        self._event("isr_learned", where, epoch=int(fields["epoch"]), to_offset=int(fields["high"]), detail=detail)

    def _isr_change_refused(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        self._once("isr_change_refused", where, replica, fields["why"], fields["why"])

    def _isr_expand_refused(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        """The leader goes on asking, and counts whom it asks for (its maximal ISR, KIP-497)."""
        self._event("isr_expand_refused", where, epoch=replica.epoch, detail=fields["why"])

    def _once(self, event: str, where: tuple[str, int], replica: _Replica, what: str, detail: str) -> None:
        """A refused leader logs the same line again and again."""
        if replica.isr_refusals.get(event) != what:
            self._event(event, where, epoch=replica.epoch, detail=detail)
        replica.isr_refusals[event] = what

    def _epoch_fenced(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        self._event("epoch_fenced", where, epoch=int(fields["epoch"]), detail="its fetch carried an old leader epoch")

    def _unclean_election(self, where: tuple[str, int], replica: _Replica, fields: Fields) -> None:
        """Of the broker that was elected, whoever says so: itself, or up to 2.1 the controller."""
        elected = NodeId(int(fields["leader"])) if fields.get("leader") else self._node
        self._event("unclean_election", where, node=elected, detail="outside the ISR, of which none was alive")


def _partition(spelled: str) -> tuple[str, int]:
    """Parses "t-0" or "[t,0]"."""
    topic, _, partition = spelled.strip("[]").rpartition("," if spelled.startswith("[") else "-")
    return topic, int(partition)


def _number(text: str | int | None) -> int | None:
    return None if text is None else int(text)


def _brokers(text: str) -> list[str]:
    return re.findall(r"\d+", text)


def _members(text: str) -> frozenset[str]:
    return frozenset(_brokers(text))


def _shown(text: str) -> str:
    return f"[{','.join(_brokers(text))}]"
