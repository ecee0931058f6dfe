"""Whole searches of imported histories: many in one Spark job, against the model and against a search of everything."""

import random
from collections.abc import Iterator
from itertools import pairwise

from harness.checks.cycles import Limits, Mode, search_histories
from harness.checks.cycles.interval import search_interval
from harness.checks.cycles.model import RW, WR, WW
from harness.checks.cycles.realtime import Operation
from tests.harness.checks.cycles.cycle_model import model
from tests.harness.checks.cycles.histories import STATUS, SearchHistory, searched
from tests.harness.checks.cycles.planted import planted

HISTORIES = 200
KEYS = ("x", "y")


def random_history(seed: int) -> SearchHistory:
    """A few operations whose logs follow their beginnings roughly; reads are stretches of a log, or anything."""
    chance = random.Random(seed)
    count = chance.randint(2, 6)
    moments = list(range(2 * count))
    chance.shuffle(moments)
    history = SearchHistory()
    spans = [sorted((moments.pop(), moments.pop())) for _ in range(count)]
    logs: dict[str, list[tuple[float, int]]] = {key: [] for key in KEYS}
    for number, (begin, end) in enumerate(spans):
        history.operation(
            end, begin, chance.choice(("txn", "txn", "send")), chance.choice(("ok", "ok", "ok", "info", "fail"))
        )
        for mop in range(chance.randint(0, 2)):
            key, value = chance.choice(KEYS), 10 * number + mop
            history.sent(end, mop, key, value)
            logs[key].append((begin + chance.random() * 6, value))
    for key in KEYS:
        order = [value for _, value in sorted(logs[key])]
        history.orders[key] = order[: chance.randint(0, len(order))] if chance.random() < 0.2 else order
        for op, _, f, *_ in history.operations:
            if f == "txn" and order and chance.random() < 0.6:
                first = chance.randrange(len(order))
                history.read(op, 5, key, order[first : first + chance.randint(1, 2)])
    return history


def operations_of(history: SearchHistory) -> list[Operation]:
    found = [
        Operation(op, begin, end if status == STATUS["ok"] else None)
        for op, _, _, status, begin, end, _, _ in history.operations
    ]
    return sorted(found, key=lambda one: one.begin)


def edges_of(history: SearchHistory) -> Iterator[tuple[int, int, int]]:
    """By the rules' words, without columns: the last writer of a value, neighbours in the order, last values read."""
    writer = {
        (partition_id, value): op
        for kind, op, partition_id, _, _, _, value in sorted(history.records, key=lambda r: r[1])
        if kind == 0
    }
    ok = {op for op, _, _, status, *_ in history.operations if status == STATUS["ok"]}
    order: dict[int, list[int]] = {}
    for partition_id, _, value in history.ordered():
        order.setdefault(partition_id, []).append(value)
    read = [(op, partition_id, value) for kind, op, partition_id, _, _, _, value in history.records if kind == 1]
    for op, partition_id, value in read:
        yield writer[partition_id, value], op, WR
    for partition_id, values in order.items():
        for before, after in pairwise(values):
            yield writer[partition_id, before], writer[partition_id, after], WW
        for op in ok:
            places = [
                values.index(value)
                for reader, where, value in read
                if (reader, where) == (op, partition_id) and value in values
            ]
            if places and max(places) + 1 < len(values):
                yield op, writer[partition_id, values[max(places) + 1]], RW


def test_full_mode_agrees_with_the_model_on_every_history() -> None:
    histories = [random_history(seed) for seed in range(HISTORIES)]
    search = searched(histories, Mode.FULL)
    assert not search.not_searched
    found_any = 0
    for run, history in enumerate(histories):
        edges = sorted({edge for edge in edges_of(history) if edge[0] != edge[1]})
        said = model(operations_of(history), edges)
        found = {
            frozenset(component.operations): {cycle.kind: len(cycle.steps) for cycle in component.cycles}
            for component in search.components.get(run, ())
        }
        assert found == said.shortest, run
        found_any += bool(found)
        for component in search.components.get(run, ()):
            for step in (step for cycle in component.cycles for step in cycle.steps):
                assert (step.value is None) == (step.name == "realtime"), (run, step)
    assert HISTORIES // 4 < found_any < HISTORIES


def test_jepsens_mode_finds_in_its_intervals_what_it_finds_in_whole_histories() -> None:
    histories = [random_history(seed) for seed in range(HISTORIES)]
    with_ww = range(0, HISTORIES, 2)
    search = searched(histories, Mode.JEPSEN, ww_deps=with_ww)
    for run, history in enumerate(histories):
        wanted = {WR, WW} if run in with_ww else {WR}
        edges = sorted({edge for edge in edges_of(history) if edge[0] != edge[1] and edge[2] in wanted})
        answer = search_interval(run, operations_of(history), edges, Mode.JEPSEN, Limits())
        expected = {
            tuple(component.operations): (component.statements, [cycle.operations for cycle in component.cycles])
            for component in answer.components
        }
        found = {
            tuple(component.operations): (component.statements, [cycle.operations for cycle in component.cycles])
            for component in search.components.get(run, ())
        }
        assert found == expected, run
        timed = any(
            before.end is not None and before.end < after.begin
            for before in operations_of(history)
            for after in operations_of(history)
        )
        assert (run in search.runs_with_edges) == (timed or bool(edges)), run


def test_planted_cycles_are_found_among_thousands_and_none_else() -> None:
    history = planted(transactions=10_000, cycles=5)
    search = search_histories(
        records=history.records,
        operations=history.operations,
        orders=history.orders,
        mode=Mode.JEPSEN,
    )
    assert not search.not_searched
    components = [set(component.operations) for component in search.components[0]]
    assert len(components) == len(history.pairs)
    assert all(any(pair <= component for component in components) for pair in history.pairs)
    assert {cycle.kind for component in search.components[0] for cycle in component.cycles} == {"G1c"}


def test_an_interval_that_is_too_long_is_said_to_be_left_out_and_the_others_are_searched() -> None:
    history = [random_history(seed) for seed in range(HISTORIES)]
    search = searched(history, Mode.JEPSEN, limits=Limits(interval_operations=4))
    left_out = {run: sum(one.operations or 0 for one in found) for run, found in search.not_searched.items()}
    assert all(operations > 4 for operations in left_out.values())
    assert len(left_out) > HISTORIES // 20
    assert search.components.keys() - left_out.keys()
    for run, components in search.components.items():
        assert sum(len(component.operations) for component in components) <= len(
            history[run].operations
        ) - left_out.get(run, 0)
