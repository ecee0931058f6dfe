"""What a search found, as Jepsen writes it: maps of the error types, operations by the index of their completion."""

from collections.abc import Callable
from typing import Any

from harness.checks.cycles.model import REALTIME, RW, WW, Cycle, Search, Statement, Step

_FRIENDLY = {
    "PL-1": ("read-uncommitted", ["union", "ww", "wwp"]),
    "PL-2": ("read-committed", ["union", "ww", "wwp", "wr", "wrp"]),
    "strong-PL-1": ("strong-read-uncommitted", ["union", "ww", "wwp", "realtime"]),
    "strong-PL-2": ("strong-read-committed", ["union", "ww", "wwp", "wr", "wrp", "realtime"]),
}


def jepsen_errors(
    search: Search, run: int, *, key_of: Callable[[int], Any], value_of: Callable[[int, int], Any]
) -> dict[str, Any]:
    """Error type -> cycles or statements, in Jepsen's order; `empty-transaction-graph` when nothing depends."""
    errors: dict[str, Any] = {}
    if run not in search.runs_with_edges:
        errors["empty-transaction-graph"] = True
    for component in search.components.get(run, ()):
        for statement in component.statements:
            errors.setdefault(f"{statement.model}-cycle-exists", []).append(_statement(statement))
        for cycle in component.cycles:
            errors.setdefault(cycle.kind, []).append(_cycle(cycle, key_of, value_of))
    return errors


def _operation(index: int) -> dict[str, int]:
    return {"op-index": index}


def _statement(statement: Statement) -> dict[str, Any]:
    ruled_out, subgraph = _FRIENDLY[statement.model]
    return {
        "type": f"{statement.model}-cycle-exists",
        "not": ruled_out,
        "subgraph": list(subgraph),
        "scc-size": len(statement.operations),
        "scc": list(statement.operations),
    }


def _cycle(cycle: Cycle, key_of: Callable[[int], Any], value_of: Callable[[int, int], Any]) -> dict[str, Any]:
    names = [*cycle.operations, cycle.operations[0]]
    return {
        "type": cycle.kind,
        "cycle": [_operation(name) for name in names],
        "steps": [_step(step, key_of, value_of) for step in cycle.steps],
    }


def _step(step: Step, key_of: Callable[[int], Any], value_of: Callable[[int, int], Any]) -> dict[str, Any]:
    if step.relation == REALTIME:
        return {"type": "realtime", "a'": _operation(step.source), "b": _operation(step.begin or 0)}
    if step.partition_id is None or step.value is None:
        raise ValueError(f"step {step.source} -> {step.target} ({step.name}) has no evidence")
    found = {
        "type": step.name,
        "key": key_of(step.partition_id),
        "value": value_of(step.partition_id, step.value),
        "a-mop-index": step.source_mop,
        "b-mop-index": step.target_mop,
    }
    if step.relation in (WW, RW) and step.next_value is not None:
        found["value'"] = value_of(step.partition_id, step.next_value)
    return found
