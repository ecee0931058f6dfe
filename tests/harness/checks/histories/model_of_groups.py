"""What is wrong with groups, transactional ids and processors, told again: slowly, over plain rows.

Each function follows its page in docs/anomalies, trying every pair and every moment; nothing is sorted out early.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations, product
from typing import Any, NamedTuple

from tests.harness.checks.histories.build import SECOND, History
from tests.outputs import decode_output

Row = Mapping[str, Any]
_OK, _FAIL, _INFO, _NEVER_BEGUN = 0, 1, 2, 3
_NEVER = 2**62


def _events(history: History, *names: str) -> list[Row]:
    return [row for row in history.rows["group_events"] if row["event"] in names]


def _polls(history: History) -> Iterator[tuple[str, Row]]:
    """(group, record read by a member of it)."""
    groups = {row["process"]: row["group"] for row in history.rows["processes"]}
    for row in history.rows["records"]:
        if row["kind"] == 1 and groups.get(row["process"]) is not None:
            yield groups[row["process"]], row


def _final(history: History) -> list[Row]:
    return [row for row in history.rows["records"] if row["kind"] == 2 and row["replica"] is None]


def _places(history: History) -> set[tuple[str, int]]:
    """(group, partition) that anything was committed in, or may have been."""
    return {(row["group"], row["partition"]) for row in _events(history, "committed")}


def _starts_at_the_earliest(history: History, group: str) -> bool:
    members = [row for row in history.rows["processes"] if row["group"] == group and row["offset_reset"] != "none"]
    return bool(members) and all(row["offset_reset"] == "earliest" for row in members)


# -- what is committed ------------------------------------


class Commit(NamedTuple):
    """asked, written: its record was appended between the two. begins: nobody saw it before. seen: all did then.
    place: of its record in the kept log of offsets, if it is certain which it is."""

    offset: int
    asked: int
    written: int
    begins: int
    seen: int
    certain: bool
    place: int | None = None

    def stands_before(self, other: "Commit") -> bool:
        if self.place is not None and other.place is not None:
            return self.place < other.place
        return self.certain and self.written < other.asked


def commits(history: History, group: str, partition: int) -> list[Commit]:
    """What was not refused; what nobody knows is never certainly seen.

    Offsets that were sent to a transaction are seen once a later transaction of the same id, begun after the answer,
    has committed; or when 30 quiet seconds have gone by since the answer.
    """
    found = []
    for row in _events(history, "committed"):
        if (row["group"], row["partition"]) != (group, partition) or row["status"] == _FAIL:
            continue
        asked, written = row["invoked_ns"], row["completed_ns"]
        if row["transaction"] is None:
            certain = row["status"] == _OK
            end = written if certain else _NEVER
            found.append(Commit(row["offset"], asked, end, asked, end, certain, _place(history, row)))
            continue
        own = next(txn for txn in history.rows["transactions"] if txn["transaction"] == row["transaction"])
        decided = own["completed_ns"] if own["outcome"] == _OK else _first_seen(history, own["transaction"])
        if decided is None:
            found.append(Commit(row["offset"], asked, _NEVER, asked, _NEVER, False, _place(history, row)))
            continue
        later = [
            txn["completed_ns"]
            for txn in history.rows["transactions"]
            if txn["transactional_id"] == own["transactional_id"]
            and txn["outcome"] == _OK
            and txn["invoked_ns"] >= decided
        ]
        seen = max(written, decided, min([*later, _quiet_for(history, decided, 30 * SECOND)]))
        found.append(Commit(row["offset"], asked, written, written, seen, True, _place(history, row)))
    return found


def _place(history: History, commit: Row) -> int | None:
    """Of its record: every commit of the same offset is held against every record of it, within a tenth of a second.

    Those that may be each other's, also by way of others, are so in order if they are equally many.
    """
    same = ("group", "topic", "partition", "offset")
    inside = commit["transaction"] is not None
    asked = [
        row
        for row in _events(history, "committed")
        if all(row[name] == commit[name] for name in same)
        and (row["transaction"] is not None) == inside
        and (inside or row["status"] != _FAIL)
    ]
    asked.sort(key=lambda row: (row["invoked_ns"], row["completed_ns"]))
    records = {
        row["offset"]: row["time_ns"]
        for row in history.rows["consumer_offsets"]
        if (row["group"], row["topic"], row["topic_partition"], row["committed_offset"], row["transactional"])
        == (*(commit[name] for name in same), inside)
    }

    def reached(row: Row) -> set[int]:
        earliest, latest = row["invoked_ns"] - SECOND // 10, row["completed_ns"] + SECOND // 10
        return {place for place, time_ns in records.items() if earliest <= time_ns <= latest}

    together, before = [commit], -1
    while len(together) > before:
        before = len(together)
        places = set().union(*map(reached, together))
        together = [row for row in asked if row is commit or reached(row) & places]
    ordered = sorted(places)
    if len(ordered) != len(together):
        return None
    if not all(place in reached(row) for row, place in zip(together, ordered, strict=True)):
        return None
    return ordered[next(number for number, row in enumerate(together) if row is commit)]


def _first_seen(history: History, transaction: int) -> int | None:
    """When a reader of committed records alone first had a record of it."""
    strict = {row["process"] for row in history.rows["processes"] if row["isolation"] == "read_committed"}
    sent = {
        (row["partition_id"], row["value"])
        for row in history.rows["records"]
        if row["kind"] == 0 and row["transaction"] == transaction and row["status"] == _INFO
    }
    return min(
        (
            row["completed_ns"]
            for row in history.rows["records"]
            if row["kind"] > 0
            and row["replica"] is None
            and row["process"] in strict
            and (row["partition_id"], row["value"]) in sent
        ),
        default=None,
    )


def _quiet_for(history: History, since: int, length: int) -> int:
    """When for so long no fault was in force, no state changed, and all replicas were in sync and led."""
    busy = [
        (row["asked_ns"] or row["begin_ns"], _NEVER if row["end_ns"] is None else row["end_ns"])
        for row in history.rows["faults"]
        if row["begin_ns"] is not None or row["end_ns"] is not None
    ]
    for partition in history.rows["partitions"]:
        own = sorted(
            (
                row
                for row in history.rows["partition_states"]
                if row["partition"] == partition["partition"] and row["topic"] == partition["topic"] and row["exact"]
            ),
            key=lambda row: row["time_ns"],
        )
        if not own:
            return _NEVER
        busy.append((-_NEVER, own[0]["time_ns"]))
        ends = [*(row["time_ns"] for row in own[1:]), _NEVER]
        for row, end in zip(own, ends, strict=True):
            whole = row["leader"] >= 0 and set(row["replicas"] or ()) <= set(row["isr"])
            busy.append((row["time_ns"], row["time_ns"] if whole else end))
    begins = [begin for begin in (since, *(end for _, end in busy)) if begin >= since]
    quiet = [b for b in begins if not any(end > b and begin < b + length for begin, end in busy)]
    return min(min(quiet, default=_NEVER) + length, _NEVER)


def may_be_committed(
    history: History, group: str, partition: int, invoked_ns: int, completed_ns: int
) -> tuple[set[int], bool]:
    """The offsets that a fetch between the two moments may answer, and whether it must answer one."""
    every = commits(history, group, partition)
    before = [commit for commit in every if commit.certain and commit.seen < invoked_ns]
    possible = {
        commit.offset
        for commit in every
        if (commit.begins <= completed_ns and not any(commit.stands_before(later) for later in before))
    }
    return possible, bool(before)


def wrong_offsets(history: History) -> set[tuple[int, int, int, str]]:
    """(process, partition, time, kind) of answers to fetches of a committed offset that no commit explains."""
    return _answers(history)[0]


def lawful_answers(history: History, group: str, partition: int) -> set[int]:
    """The offsets that fetches lawfully answered: they were committed for certain."""
    return {row["offset"] for row in _answers(history)[1][group, partition]}


def _answers(
    history: History,
) -> tuple[set[tuple[int, int, int, str]], Mapping[tuple[str, int], list[Row]]]:
    found = set()
    shown: dict[tuple[str, int], list[Row]] = defaultdict(list)  # lawful answers, in order of their ends
    fetches = [fetch for fetch in _events(history, "fetched") if fetch["status"] == 0]
    for fetch in sorted(fetches, key=lambda row: row["completed_ns"]):
        group, partition, reported = fetch["group"], fetch["partition"], fetch["offset"]
        possible, certain = may_be_committed(history, group, partition, fetch["invoked_ns"], fetch["completed_ns"])
        before = [each for each in shown[group, partition] if each["completed_ns"] < fetch["invoked_ns"]]
        if before:
            last, certain = max(before, key=lambda each: each["invoked_ns"]), True
            every = commits(history, group, partition)
            held = [each for each in every if each.offset == last["offset"] and each.begins <= last["completed_ns"]]
            hidden = [
                each
                for each in every
                if each.seen >= last["invoked_ns"] and not all(each.stands_before(one) for one in held)
            ]
            possible &= {last["offset"], *(each.offset for each in hidden if each.asked <= fetch["completed_ns"])}
        if reported is None and certain:
            kind = "lost"
        elif reported is not None and reported not in possible:
            kind = "regressed" if possible and reported < min(possible) else "foreign"
            if reported in _aborted(history, group, partition, fetch["completed_ns"]):
                kind = "aborted"
        else:
            if reported is not None:
                shown[group, partition].append(fetch)
            continue
        found.add((fetch["process"], fetch["partition"], fetch["invoked_ns"], kind))
    return found, shown


def _aborted(history: History, group: str, partition: int, until_ns: int) -> set[int]:
    """The offsets that had been sent to transactions that were aborted for certain."""
    aborted = {row["transaction"] for row in history.rows["transactions"] if row["outcome"] == _FAIL}
    return {
        row["offset"]
        for row in _events(history, "committed")
        if (row["group"], row["partition"]) == (group, partition)
        and row["transaction"] in aborted
        and row["invoked_ns"] <= until_ns
    }


# -- owners -----------------------------------------------


def two_owners(history: History) -> set[tuple[int, str, int, int, int]]:
    """(partition, group, generation, process, other process) that one generation made owners of the same partition."""
    found = set()
    given = [row for row in _events(history, "assigned") if row["status"] != _FAIL]
    for one, other in product(given, given):
        if (one["partition"], one["group"], one["generation"]) != (
            other["partition"],
            other["group"],
            other["generation"],
        ):
            continue
        if one["generation"] is None or one["generation"] < 0:
            continue
        if one["process"] >= other["process"] or one["member"] == other["member"]:
            continue
        if not (_given_up(history, one, other["completed_ns"]) or _given_up(history, other, one["completed_ns"])):
            found.add((one["partition"], one["group"], one["generation"], one["process"], other["process"]))
    return found


def _given_up(history: History, given: Row, time_ns: int) -> bool:
    """Whether the member may have given the partition up, after it was given, by the moment."""
    return any(
        row["process"] == given["process"]
        and row["partition"] == given["partition"]
        and row["group"] == given["group"]
        and row["status"] != _FAIL
        and given["invoked_ns"] <= row["invoked_ns"] <= time_ns
        for row in _events(history, "revoked", "lost")
    )


# -- old generations --------------------------------------


def zombie_commits(history: History) -> set[tuple[int, str, int, int, int, str]]:
    """(partition, group, process, generation, asked, kind) of accepted commits: of a former generation, by whichever
    later one was told before; or for a partition that the member had given up to another."""
    found = set()
    for row in _events(history, "committed"):
        of = row["generation"]
        if row["status"] != _OK or of is None or of < 0:
            continue
        kind = _kind_of_zombie(history, row, of)
        if kind is not None:
            found.add((row["partition"], row["group"], row["process"], of, row["invoked_ns"], kind))
    return found


def _kind_of_zombie(history: History, commit: Row, of: int) -> str | None:
    clients = {row["process"]: row for row in history.rows["processes"]}
    mine = clients.get(commit["process"], {})
    classic = mine.get("group_protocol") == "classic"
    fenced_by_its_own = classic or (history.scenario.cluster.release or (9,)) < (4, 3)
    given = sorted(
        (row for row in _events(history, "assigned") if row["group"] == commit["group"] and row["status"] != _FAIL),
        key=lambda row: (row["completed_ns"], row["invoked_ns"]),
    )
    answered = [row for row in given if row["completed_ns"] <= commit["invoked_ns"]]
    mine_answered = [row for row in answered if row["process"] == commit["process"]]
    held = _held(history, commit)
    gave_up = bool(held) and held[-1]["event"] != "assigned"
    present = (
        not classic
        and gave_up
        and bool(mine_answered)
        and mine_answered[-1]["generation"] == of
        and mine_answered[-1]["completed_ns"] > held[-1]["invoked_ns"]
    )

    def is_another(row: Row) -> bool:
        theirs, instance = clients.get(row["process"], {}), mine.get("group_instance_id")
        same = row["process"] == commit["process"] or (row["member"] and row["member"] == commit["member"])
        return not same and (instance is None or instance != theirs.get("group_instance_id"))

    recorded = any(row["process"] == commit["process"] for row in given)
    origins = [
        place
        for place, row in enumerate(answered)
        if (
            (row["generation"] or 0) <= of
            if row["process"] == commit["process"]
            else not recorded and (row["generation"] or 0) == of
        )
    ]
    heard_later = {
        row["generation"]
        for row in given
        if row["process"] == commit["process"] and row["completed_ns"] > commit["invoked_ns"]
    }
    since = _had_since(held)
    for row in answered[max(origins) + 1 :] if origins and not present else ():
        its_own = row["process"] == commit["process"]
        here = row["partition"] == commit["partition"]
        by_others = is_another(row) and (classic or here) and row["generation"] not in heard_later
        if (row["generation"] or 0) > of and (by_others or (its_own and (fenced_by_its_own or row is since))):
            return "old-generation"
    taken = (
        any(
            is_another(row)
            and row["partition"] == commit["partition"]
            and row["completed_ns"] >= held[-1]["invoked_ns"]
            and ((row["generation"] or 0) <= of or present)
            for row in answered
        )
        if gave_up
        else False
    )
    return "given-up" if taken else None


def _held(history: History, commit: Row) -> list[Row]:
    """What the member was given of the partition, and gave up, before it committed."""
    own = [
        row
        for row in _events(history, "assigned", "revoked", "lost")
        if (row["process"], row["partition"]) == (commit["process"], commit["partition"])
        and row["status"] != _FAIL
        and row["completed_ns"] <= commit["invoked_ns"]
    ]
    return sorted(own, key=lambda row: (row["invoked_ns"], row["completed_ns"]))


def _had_since(held: list[Row]) -> Row | None:
    ends = [place for place, row in enumerate(held) if row["event"] != "assigned"]
    rest = held[max(ends, default=-1) + 1 :]
    return rest[0] if rest else None


# -- delivery ---------------------------------------------


def read_by_several(history: History) -> set[tuple[int, str, int, int, int]]:
    """(partition, group, records, first, last) of what more than one member read."""
    readers: dict[tuple[int, str, int], set[int]] = {}
    for group, row in _polls(history):
        readers.setdefault((row["partition_id"], group, row["offset"]), set()).add(row["process"])
    return _summed(
        (partition_id, group, offset)
        for (partition_id, group, offset), processes in readers.items()
        if len(processes) > 1
    )


def _summed(found: Iterator[tuple[int, str, int]]) -> set[tuple[int, str, int, int, int]]:
    """(partition, group, offsets, first, last)."""
    places: dict[tuple[int, str], set[int]] = {}
    for partition_id, group, offset in found:
        places.setdefault((partition_id, group), set()).add(offset)
    return {(partition_id, group, len(offs), min(offs), max(offs)) for (partition_id, group), offs in places.items()}


def read_after_commit(history: History) -> set[tuple[int, str, int, int, int, int, int]]:
    """(partition, group, process, assignment, committed, first, last) of what was committed and came once more."""
    found = set()
    every = list(_polls(history))
    for place in {(group, row["partition_id"], row["process"], row["assignment"]) for group, row in every}:
        group, partition_id, process, assignment = place
        own = [
            row
            for _, row in every
            if (row["partition_id"], row["process"], row["assignment"]) == (partition_id, process, assignment)
        ]
        rows = [
            row["invoked_ns"]
            for row in _events(history, "assigned", "seek")
            if (row["process"], row["partition"]) == (process, partition_id)
            and row["invoked_ns"] <= min(row["completed_ns"] for row in own)
        ]
        sought = [
            row
            for row in _events(history, "seek")
            if (row["process"], row["partition"]) == (process, partition_id)
            and row["invoked_ns"] <= max(row["completed_ns"] for row in own)
        ]
        began = min(*(row["invoked_ns"] for row in own), max(rows, default=_NEVER))
        possible, certain = may_be_committed(history, group, partition_id, began, began)
        again = [row["offset"] for row in own if certain and row["offset"] < min(possible)]
        if again and not sought:
            found.add((partition_id, group, process, assignment, min(possible), min(again), max(again)))
    return found


def skipped(history: History) -> set[tuple[int, str, int, int, int, int]]:
    """(partition, group, committed, records, first, last) that no member ever read, by the certain commit that was the
    first of those above them."""
    found: dict[tuple[int, str, Commit], list[int]] = {}
    for group, partition_id in _places(history) if any(_polls(history)) else ():
        certain = [commit for commit in commits(history, group, partition_id) if commit.certain]
        if not certain or not _starts_at_the_earliest(history, group) or _sought_ahead(history, group, partition_id):
            continue
        read = {row["offset"] for own, row in _polls(history) if (own, row["partition_id"]) == (group, partition_id)}
        final = {row["offset"] for row in _final(history) if row["partition_id"] == partition_id}
        for offset in final - read:
            passed = [commit for commit in certain if commit.offset > offset]
            if passed:
                first = min(passed, key=lambda commit: (commit.written, commit.asked))
                found.setdefault((partition_id, group, first), []).append(offset)
    return {
        (partition_id, group, first.offset, len(own), min(own), max(own))
        for (partition_id, group, first), own in found.items()
    }


def _sought_ahead(history: History, group: str, partition_id: int) -> bool:
    for seek in _events(history, "seek"):
        if (seek["group"], seek["partition"]) == (group, partition_id):
            read = [
                row["offset"]
                for _, row in _polls(history)
                if (row["process"], row["partition_id"]) == (seek["process"], partition_id)
                and row["invoked_ns"] <= seek["completed_ns"]
            ]
            if seek["offset"] > max(read, default=-1) + 1:
                return True
    return False


def committed_ahead(history: History) -> set[tuple[int, str, int, int, int]]:
    """(partition, group, records, first, last) that were committed, and read only afterwards."""
    found = []
    for group, partition_id in _places(history):
        own = [row for member, row in _polls(history) if (member, row["partition_id"]) == (group, partition_id)]
        for offset, _, stored, _, _, certain, _ in commits(history, group, partition_id):
            reached = [row["offset"] for row in own if row["invoked_ns"] <= stored]
            begun = [
                row["offset"] - 1
                for row in _events(history, "assigned", "fetched", "seek")
                if (row["group"], row["partition"]) == (group, partition_id)
                and row["offset"] is not None
                and row["invoked_ns"] <= stored
            ]
            if not certain or not (reached or begun or _starts_at_the_earliest(history, group)):
                continue
            beyond = range(max(reached + begun, default=-1) + 1, offset)
            found += [(partition_id, group, row["offset"]) for row in own if row["offset"] in beyond]
    return _summed(iter(found))


# -- transactional ids ------------------------------------


def zombies(history: History) -> set[tuple[str, int]]:
    """(transactional id, transaction) that committed although its producer was fenced, whichever way it went."""
    found = set()
    producers: dict[tuple[str, int], list[Row]] = {}
    for row in sorted(history.rows["transactions"], key=lambda row: row["invoked_ns"]):
        if row["transactional_id"] and row["outcome"] != _NEVER_BEGUN:
            producers.setdefault((row["transactional_id"], row["process"]), []).append(row)
    for one, other in combinations(producers.items(), 2):
        if one[0][0] == other[0][0]:
            found |= {(one[0][0], txn) for txn in _zombies_of_two(one[1], other[1])}
    return found


def _zombies_of_two(one: list[Row], other: list[Row]) -> set[int]:
    """Tries every moment at which the two may have been given their epochs, each while it began its first transaction.

    What is a zombie whenever they were is one. If it depends on who was first, it is not the last to commit.
    """
    if any(len(rows) == 1 and rows[0]["outcome"] != _OK for rows in (one, other)):
        return set()  # it may never have been given one
    by_order: dict[bool, list[set[int]]] = {}
    for mine, theirs in product(_moments(one[0]), _moments(other[0])):
        for was_first, older, since in ((mine <= theirs, one, theirs), (theirs <= mine, other, mine)):
            if was_first:
                zombies = {row["transaction"] for row in older if row["outcome"] == _OK and row["invoked_ns"] > since}
                by_order.setdefault(older is one, []).append(zombies)
    certain = {order: set.intersection(*found) for order, found in by_order.items()}
    if not all(certain.values()):
        return set()
    last = max((row["invoked_ns"], row["process"]) for row in one + other if row["outcome"] == _OK)[1]
    return certain[last == other[0]["process"]] if len(certain) > 1 else next(iter(certain.values()))


def _moments(first: Row) -> set[int]:
    return {first["invoked_ns"], (first["invoked_ns"] + first["completed_ns"]) // 2, first["completed_ns"]}


# -- read, process, write ---------------------------------


def processed_wrongly(history: History) -> set[tuple[int, str, str, int, int, int]]:
    """(input partition, group, kind, inputs, first, last)."""
    names = {row["value"]: decode_output(row["name"]) for row in history.rows["value_names"]}
    if not any(names.values()):
        return set()  # nobody names what a record was made of
    numbers = {(row["topic"], row["partition"]): row["partition_id"] for row in history.rows["partitions"]}
    outputs = {(row["partition_id"], row["offset"], row["value"]) for row in _final(history)}
    made_of = [(numbers.get(name[:2]), name[2]) for _, _, value in outputs if (name := names.get(value)) is not None]
    found = set()
    for partition_id in numbers.values():
        inside = [
            row
            for row in _events(history, "committed")
            if row["partition"] == partition_id and row["transaction"] is not None
        ]
        groups = {row["group"] for row in inside}
        if len(groups) != 1 or not _starts_at_the_earliest(history, *groups):
            continue
        (group,) = groups
        every = commits(history, group, partition_id)
        certain = max(
            (*(commit.offset for commit in every if commit.certain), *lawful_answers(history, group, partition_id)),
            default=0,
        )
        possible = max((commit.offset for commit in every), default=0)
        inputs = {row["offset"] for row in _final(history) if row["partition_id"] == partition_id}
        counts = {
            offset: made_of.count((partition_id, offset))
            for offset in inputs | {offset for where, offset in made_of if where == partition_id}
        }
        kinds = {
            "twice": [offset for offset, count in counts.items() if count > 1],
            "missing": [offset for offset, count in counts.items() if count == 0 and offset < certain],
            "uncommitted": [offset for offset, count in counts.items() if count > 0 and offset >= possible],
        }
        found |= {(partition_id, group, kind, len(offs), min(offs), max(offs)) for kind, offs in kinds.items() if offs}
    return found
