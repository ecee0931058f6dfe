"""Strongly connected components (Tarjan), without recursion: a history's graph is one long ribbon."""

from collections.abc import Iterable, Mapping, Sequence


def strong_components(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """Of the graph on 0..n-1, each component once, single vertices too; linear in vertices and edges."""
    count = len(successors)
    index_of = [-1] * count
    low = [0] * count
    on_stack = bytearray(count)
    stack: list[int] = []
    found: list[list[int]] = []
    visited = 0
    for root in range(count):
        if index_of[root] >= 0:
            continue
        work: list[tuple[int, int]] = [(root, 0)]
        while work:
            vertex, place = work.pop()
            if place == 0:
                index_of[vertex] = low[vertex] = visited
                visited += 1
                stack.append(vertex)
                on_stack[vertex] = 1
            targets = successors[vertex]
            lowest = low[vertex]
            descend = False
            while place < len(targets):
                target = targets[place]
                place += 1
                if index_of[target] < 0:
                    descend = True
                    break
                if on_stack[target] and low[target] < lowest:
                    lowest = low[target]
            low[vertex] = lowest
            if descend:
                work.append((vertex, place))
                work.append((target, 0))
                continue
            if lowest == index_of[vertex]:
                found.append(_popped(vertex, stack, on_stack))
            if work and lowest < low[work[-1][0]]:
                low[work[-1][0]] = lowest
    return found


def _popped(vertex: int, stack: list[int], on_stack: bytearray) -> list[int]:
    members: list[int] = []
    while True:
        member = stack.pop()
        on_stack[member] = 0
        members.append(member)
        if member == vertex:
            return members


def components_of(graph: Mapping[int, Iterable[int]], *, singles: bool = False) -> list[list[int]]:
    """Of a graph on any integers, all of which are keys."""
    names = list(graph)
    place_of = {name: place for place, name in enumerate(names)}
    successors = [[place_of[target] for target in graph[name]] for name in names]
    return [
        [names[place] for place in members] for members in strong_components(successors) if singles or len(members) > 1
    ]
