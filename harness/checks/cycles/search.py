"""From a graph to components and cycles: the search of each interval in which a cycle can lie, then what proves it."""

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import replace

import pyarrow as pa

from harness.checks.cycles.evidence import with_evidence
from harness.checks.cycles.graph import Graph
from harness.checks.cycles.imported import imported_graph
from harness.checks.cycles.interval import in_jepsen_order
from harness.checks.cycles.model import Component, Limits, Mode, NotSearched, Search


def search_histories(
    *,
    records: pa.Table,
    operations: pa.Table,
    orders: pa.Table,
    mode: Mode,
    ww_deps: bool | Collection[int] = True,
    limits: Limits | None = None,
    key_of: Callable[[int, int], object] | None = None,
) -> Search:
    """See the package. `key_of(run, partition_id)`: the key's own name, which selects Jepsen's evidence if many."""
    graph = imported_graph(records=records, operations=operations, orders=orders, mode=mode, ww_deps=ww_deps)
    found = search_graph(graph, mode, limits or Limits(), key_of)
    return replace(found, runs_with_edges=graph.runs_with_edges()) if mode is Mode.JEPSEN else found


def search_graph(
    graph: Graph, mode: Mode, limits: Limits, key_of: Callable[[int, int], object] | None = None
) -> Search:
    answers, too_long = graph.answers(mode, limits)
    components: dict[int, list[Component]] = defaultdict(list)
    not_searched: dict[int, list[NotSearched]] = defaultdict(list)
    for left_out in too_long:
        not_searched[left_out.run].append(left_out)
    for answer in answers:
        for component in answer.components:
            components[component.run].append(component)
        for left_out in answer.not_searched:
            not_searched[left_out.run].append(left_out)
    explained = with_evidence(graph, components, key_of)
    ordered = {
        run: in_jepsen_order(found) if mode is Mode.JEPSEN else sorted(found, key=lambda one: one.operations[0])
        for run, found in sorted(explained.items())
    }
    return Search(mode=mode, components=ordered, not_searched=dict(not_searched))
