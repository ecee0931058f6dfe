"""The search inside an interval against the model that walks every cycle, on random small graphs."""

import random

from harness.checks.cycles import Limits, Mode
from harness.checks.cycles.interval import search_interval
from harness.checks.cycles.model import REALTIME, RW, WR, WW
from harness.checks.cycles.realtime import Operation, moments, reduced
from tests.harness.checks.cycles.cycle_model import all_edges, components, model

HISTORIES = 1000


def random_graph(seed: int) -> tuple[list[Operation], list[tuple[int, int, int]]]:
    chance = random.Random(seed)
    count = chance.randint(2, 6)
    moments_left = list(range(2 * count))
    chance.shuffle(moments_left)
    operations = []
    for name in range(count):
        begin, end = sorted((moments_left.pop(), moments_left.pop()))
        operations.append(Operation(name, begin, end if chance.random() < 0.75 else None))
    edges = {
        (source, target, chance.choice((WW, WR, RW)))
        for source in range(count)
        for target in range(count)
        if source != target and chance.random() < chance.choice((0.1, 0.3))
    }
    return sorted(operations, key=lambda one: one.begin), sorted(edges)


def test_full_mode_agrees_on_components_kinds_and_shortest_lengths() -> None:
    kinds = set()
    for seed in range(HISTORIES):
        operations, edges = random_graph(seed)
        said = model(operations, edges)
        answer = search_interval(0, operations, edges, Mode.FULL, Limits())
        found = {
            frozenset(component.operations): {cycle.kind: len(cycle.steps) for cycle in component.cycles}
            for component in answer.components
        }
        assert found == said.shortest, seed
        assert not answer.not_searched
        for component in answer.components:
            for cycle in component.cycles:
                kinds.add(cycle.kind)
                assert {(step.source, step.target, step.relation) for step in cycle.steps} <= all_edges(
                    operations, edges
                ), seed
    assert len(kinds) == 10, kinds


def test_jepsen_mode_agrees_on_components_and_statements_and_finds_a_cycle_in_each() -> None:
    for seed in range(HISTORIES):
        operations, edges = random_graph(seed)
        edges = [edge for edge in edges if edge[2] != RW]
        said = model(operations, edges)
        answer = search_interval(0, operations, edges, Mode.JEPSEN, Limits())
        found = {
            frozenset(component.operations): {statement.model for statement in component.statements}
            for component in answer.components
        }
        assert found == said.jepsen, seed
        for component in answer.components:
            assert component.cycles, seed
            for cycle in component.cycles:
                assert [step.target for step in cycle.steps] == [*cycle.operations[1:], cycle.operations[0]]
                if len(component.statements) == 1:
                    assert (REALTIME in {step.relation for step in cycle.steps}) == component.statements[
                        0
                    ].model.startswith("strong"), seed


def test_real_time_in_linear_size_joins_the_same_operations_as_all_its_pairs() -> None:
    for seed in range(HISTORIES):
        operations, _ = random_graph(seed)
        pairs = {(source, target) for source, target, _ in all_edges(operations, [])}
        successors = moments(operations)
        for start, operation in enumerate(operations):
            reached, waiting = set(), list(successors[start])
            while waiting:
                place = waiting.pop()
                if place not in reached:
                    reached.add(place)
                    # An operation reached in real time leads on by its own completion only.
                    waiting += successors[place] if place >= len(operations) else ()
            after = {operations[place].name for place in reached if place < len(operations)}
            assert after == {target for source, target in pairs if source == operation.name}, seed


def test_jepsens_reduction_reaches_what_all_pairs_reach() -> None:
    for seed in range(HISTORIES):
        operations, edges = random_graph(seed)
        linked = {(source, target, REALTIME) for source, targets in reduced(operations).items() for target in targets}
        data = {edge for edge in edges if edge[2] != RW}
        assert components(linked | data) == components(all_edges(operations, sorted(data))), seed


def test_a_bounded_search_says_what_it_did_not_decide() -> None:
    undecided = 0
    for seed in range(HISTORIES):
        operations, edges = random_graph(seed)
        whole = search_interval(0, operations, edges, Mode.FULL, Limits())
        bounded = search_interval(0, operations, edges, Mode.FULL, Limits(shortest_visits=-1))
        for full, cut in zip(whole.components, bounded.components, strict=True):
            missing = {cycle.kind for cycle in full.cycles} - {cycle.kind for cycle in cut.cycles}
            assert not missing or bounded.not_searched, seed
        undecided += bool(bounded.not_searched)
    assert undecided


def test_a_bounded_path_search_still_finds_a_cycle() -> None:
    for seed in range(HISTORIES):
        operations, edges = random_graph(seed)
        edges = [edge for edge in edges if edge[2] != RW]
        answer = search_interval(0, operations, edges, Mode.JEPSEN, Limits(path_steps=0))
        for component in answer.components:
            assert component.cycles, seed
            assert not any(cycle.shortest for cycle in component.cycles), seed
