"""Jepsen's rules for logs (jepsen.tests.kafka) once more, slow and plain: loops over the events of one history.

Written to be read beside the rules, and to be compared with the checks in Spark. Cycles are not its business. Where
Jepsen's checker dies, `Died` is raised with the kind of its death.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from harness.history.jepsen.clojure_order import map_order, set_order
from harness.history.jepsen.edn_reader import Keyword

Event = Mapping[str, Any]
COMPLETIONS = ("ok", "fail", "info")


class Died(Exception):
    """Jepsen's analysis ends with an exception of this kind."""


def events_of(parsed: Sequence[Mapping[Any, Any]]) -> list[Event]:
    """Client events with plain names for :type, :f and the fields."""
    events: list[Event] = []
    for event in parsed:
        if isinstance(event[Keyword("process")], int):
            plain = {key.name: value for key, value in event.items()}
            events.append({**plain, "type": plain["type"].name, "f": plain["f"].name})
    return events


def in_set_order(values: Any) -> list[Any]:
    return sorted(set(values), key=set_order)


def reads_of(event: Event) -> dict[Any, list[Any]]:
    """Key -> values polled, in order; keys in Clojure's order. Keys with an empty list are there too."""
    if event["f"] not in ("poll", "txn"):
        return {}
    reads: dict[Any, list[Any]] = {}
    for micro in event.get("value") or ():
        if micro[0] == Keyword("poll") and len(micro) > 1 and micro[1]:
            for key in map_order(micro[1]):
                reads.setdefault(key, []).extend(value for _, value in micro[1][key])
    return {key: reads[key] for key in map_order(reads)}


def writes_of(event: Event) -> dict[Any, list[Any]]:
    if event["f"] not in ("send", "txn"):
        return {}
    writes: dict[Any, list[Any]] = {}
    for micro in event.get("value") or ():
        if micro[0] == Keyword("send"):
            writes.setdefault(micro[1], []).append(micro[2][1] if isinstance(micro[2], list) else micro[2])
    return {key: writes[key] for key in map_order(writes)}


class Model:
    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.completions = [event for event in events if event["type"] in COMPLETIONS]
        self.ok_reads = self._ok_reads()
        self.logs = self._logs()
        self.places = {key: self._places(log) for key, log in self.logs.items()}
        self.writer: dict[tuple[Any, Any], Event] = {}
        self.readers: dict[tuple[Any, Any], list[Event]] = {}
        for event in self.completions:
            for key, values in writes_of(event).items():
                for value in values:
                    self.writer[key, value] = event
            for key, values in reads_of(event).items():
                for value in values:
                    self.readers.setdefault((key, value), []).append(event)

    def errors(self) -> dict[str, Any]:
        self._sort()
        found = {
            "duplicate": list(self._duplicates()),
            "inconsistent-offsets": list(self._inconsistent_offsets()),
            "precommitted-read": list(self._precommitted_reads()),
            "G1a": list(self._aborted_reads()),
            "lost-write": list(self._lost_writes()),
            "nonmonotonic-send": list(self._nonmonotonic_sends()),
            **self._internal("poll", reads_of),
            **self._internal("send", writes_of),
            **self._external_polls(),
            "unseen": self._unseen(),
        }
        if any(reader not in self.writer for reader in self.readers):
            raise Died("no-writer-of-value")
        return {name: errors for name, errors in found.items() if errors}

    def _sort(self) -> None:
        """Jepsen keeps the keys of unseen values, and the values at an offset, in sorted maps and sets."""
        unseen = self._unseen()
        together = [list(unseen["messages"])] if unseen else []
        together += [list(values) for log in self.logs.values() for values in log.values()]
        if any(len({type(value) for value in values}) > 1 for values in together):
            raise Died("ClassCastException")

    # -- what everything rests on -------------------------

    def _ok_reads(self) -> dict[Any, set[Any]]:
        found: dict[Any, set[Any]] = {}
        for event in self.completions:
            if event["type"] == "ok":
                for key, values in reads_of(event).items():
                    found.setdefault(key, set()).update(values)
        return {key: found[key] for key in map_order(found)}

    def must_have_committed(self, event: Event) -> bool:
        if event["type"] == "ok":
            return True
        return event["type"] == "info" and any(
            value in self.ok_reads.get(key, ()) for key, values in writes_of(event).items() for value in values
        )

    def _logs(self) -> dict[Any, dict[int, set[Any]]]:
        """Key -> offset -> values seen there."""
        logs: dict[Any, dict[int, set[Any]]] = {}
        for event in self.events:
            if event["f"] not in ("poll", "send", "txn"):
                continue
            for micro in event.get("value") or ():
                if micro[0] == Keyword("send"):
                    if self.must_have_committed(event) and isinstance(micro[2], list) and micro[2][0] is not None:
                        logs.setdefault(micro[1], {}).setdefault(micro[2][0], set()).add(micro[2][1])
                elif len(micro) > 1:
                    for key, pairs in (micro[1] or {}).items():
                        for offset, value in pairs:
                            if offset is not None:
                                logs.setdefault(key, {}).setdefault(offset, set()).add(value)
        return {key: dict(sorted(logs[key].items())) for key in map_order(logs)}

    @staticmethod
    def _places(log: Mapping[int, set[Any]]) -> dict[str, Any]:
        """by_index: one value per index; by_value: its last index among those; first, last: of its appearances."""
        by_index = [in_set_order(values)[0] for values in log.values()]
        places: dict[str, Any] = {"by_index": by_index, "by_value": {}, "first": {}, "last": {}}
        for index, (picked, values) in enumerate(zip(by_index, log.values(), strict=True)):
            places["by_value"][picked] = index
            for value in values:
                places["first"].setdefault(value, index)
                places["last"][value] = index
        return places

    def _index(self, key: Any, value: Any) -> int | None:
        found: int | None = self.places.get(key, {}).get("by_value", {}).get(value)
        return found

    def _delta(self, key: Any, before: Any, after: Any) -> int:
        from_, to = self._index(key, before), self._index(key, after)
        return 1 if from_ is None or to is None else to - from_

    def _skipped(self, key: Any, before: Any, after: Any) -> list[Any]:
        from_, to = self._index(key, before), self._index(key, after)
        assert from_ is not None
        assert to is not None
        return list(self.places[key]["by_index"][from_ + 1 : to])

    # -- the anomalies ------------------------------------

    def _inconsistent_offsets(self) -> Iterator[dict[str, Any]]:
        for key, log in self.logs.items():
            for index, (offset, values) in enumerate(log.items()):
                if len(values) > 1:
                    yield {"key": key, "offset": offset, "index": index, "values": sorted(values, key=str)}

    def _duplicates(self) -> Iterator[dict[str, Any]]:
        for key, log in self.logs.items():
            for value in map_order(value for values in log.values() for value in in_set_order(values)):
                offsets = [offset for offset, values in log.items() if value in values]
                if len(offsets) > 1:
                    yield {"key": key, "value": value, "count": len(offsets), "offsets": offsets}

    def _precommitted_reads(self) -> Iterator[dict[str, Any]]:
        for event in self.events:
            for key, values in writes_of(event).items():
                both = set(values) & set(reads_of(event).get(key, ()))
                if both:
                    yield {"op": event, "key": key, "value": in_set_order(both)[0]}
                    break

    def _aborted_reads(self) -> Iterator[dict[str, Any]]:
        failed = {
            (key, value)
            for event in self.events
            if event["type"] == "fail"
            for key, values in writes_of(event).items()
            for value in values
        }
        for event in self.events:
            if event["type"] == "ok":
                for key, values in reads_of(event).items():
                    for value in values:
                        if (key, value) in failed:
                            yield {"key": key, "value": value, "writer": self.writer[key, value], "reader": event}

    def _lost_writes(self) -> Iterator[dict[str, Any]]:
        for key, read in self.ok_reads.items():
            places = self.places.get(key, {"first": {}, "last": {}})
            bound = max((places["first"][value] for value in read if value in places["first"]), default=-1)
            if bound < 0:
                raise Died("IndexOutOfBoundsException")
            at_bound = in_set_order(value for value, index in places["last"].items() if index == bound)
            readers = self.readers.get((key, at_bound[0]), []) if at_bound else []
            must = [value for value, index in places["last"].items() if index <= bound]
            for value in sorted(must, key=lambda value: (places["last"][value], set_order(value))):
                if value in read:
                    continue
                if (key, value) not in self.writer:
                    raise Died("no-writer-of")
                writer = self.writer[key, value]
                if self.must_have_committed(writer):
                    yield {
                        "key": key,
                        "value": value,
                        "index": places["first"][value],
                        "max-read-index": bound,
                        "writer": writer,
                        "max-read": readers[0] if readers else None,
                    }

    def _internal(self, what: str, values_of: Any) -> dict[str, list[dict[str, Any]]]:
        skips, backwards = [], []
        for event in self.completions:
            moved = {key for entry in event.get("rebalance-log") or () for key in entry.get(Keyword("keys")) or ()}
            for key, values in values_of(event).items():
                if what == "poll" and key in moved:
                    continue
                for before, after in pairwise(values):
                    delta = self._delta(key, before, after)
                    error = {"key": key, "values": [before, after], "delta": delta, "op": event}
                    if delta > 1:
                        skips.append({**error, "skipped": self._skipped(key, before, after)})
                    elif delta < 1:
                        backwards.append(error)
        return {f"int-{what}-skip": skips, f"int-nonmonotonic-{what}": backwards}

    def _by_process(self) -> list[list[Event]]:
        processes: dict[Any, list[Event]] = {}
        for event in self.events:
            processes.setdefault(event["process"], []).append(event)
        return [processes[process] for process in map_order(processes)]

    def _external_polls(self) -> dict[str, list[dict[str, Any]]]:
        skips, backwards = [], []
        for events in self._by_process():
            last: dict[Any, Event] = {}
            for event in events:
                if event["f"] in ("assign", "subscribe") and event["type"] in ("ok", "info"):
                    last = {key: last[key] for key in event.get("value") or () if key in last}
                for key, values in reads_of(event).items():
                    before = reads_of(last[key])[key] if key in last else []
                    if before and values:
                        delta = self._delta(key, before[-1], values[0])
                        error = {"key": key, "delta": delta, "ops": [last[key], event]}
                        if delta > 1:
                            skips.append({**error, "skipped": self._skipped(key, before[-1], values[0])})
                        elif delta < 1:
                            backwards.append({**error, "values": [before[-1], values[0]]})
                if event["type"] == "ok":
                    last |= dict.fromkeys(reads_of(event), event)
        return {"poll-skip": skips, "nonmonotonic-poll": backwards}

    def _nonmonotonic_sends(self) -> Iterator[dict[str, Any]]:
        for events in self._by_process():
            last: dict[Any, Event] = {}
            for event in events:
                if event["type"] not in ("ok", "info"):
                    continue
                if event["f"] in ("assign", "subscribe"):
                    last = {key: last[key] for key in event.get("value") or () if key in last}
                for key, values in writes_of(event).items():
                    if key in last:
                        before = writes_of(last[key])[key][-1]
                        delta = self._delta(key, before, values[0])
                        if delta < 1:
                            yield {"key": key, "values": [before, values[0]], "delta": delta, "ops": [last[key], event]}
                last |= dict.fromkeys(writes_of(event), event)

    def _unseen(self) -> dict[str, Any] | None:
        """Step by step as Jepsen does it, with its merge that keeps a key which was only polled."""
        unseen: dict[Any, set[Any]] = {}
        polled: dict[Any, set[Any]] = {}
        time = None
        for event in self.events:
            if event["type"] != "ok" or event["f"] not in ("poll", "send", "txn"):
                continue
            time = event["time"]
            for key, values in reads_of(event).items():
                polled.setdefault(key, set()).update(values)
            for key, values in writes_of(event).items():
                unseen.setdefault(key, set()).update(values)
            unseen = {
                key: unseen[key] - polled.get(key, set()) if key in unseen else set(polled[key])
                for key in {**unseen, **polled}
            }
        left = {key: sorted(values, key=str) for key, values in unseen.items() if values}
        if not left:
            return None
        return {"time": time, "unseen": {key: len(values) for key, values in left.items()}, "messages": left}


def plain(value: Any) -> Any:
    """In the form of golden.jsonl: operations by their index, names without their colons."""
    if isinstance(value, Keyword):
        return value.name
    if isinstance(value, Mapping):
        if "process" in value and "f" in value:
            return {"op-index": value["index"]}
        return {str(plain(key)): plain(element) for key, element in value.items()}
    return [plain(element) for element in value] if isinstance(value, list) else value
