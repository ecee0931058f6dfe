"""A scenario for a cluster that has other brokers than it names: each of its ids stands for a broker of that cluster.

What a story says of brokers 1, 2 and 3 holds of any three. So the ids that a scenario names are roles, given to the
cluster's brokers in order: in assignments, targets, links, conditions and expectations alike. Ids from 100 on, and what
is written by role (`leader(orders/0)`), stay as they are.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from faults import links
from faults.targets import Target
from harness.errors import UsageError
from harness.ports.cluster import COORDINATION
from harness.ports.faults import ACTS
from harness.scenario.model import FaultSpec, Scenario, StepSpec, TopicSpec
from harness.scenario.steps import KEYED_BY_BROKER, LISTS_BROKERS, read_step
from harness.values import is_number

ONE_BROKER = ("leader", "controller", "to", "broker", "log_end_unchanged_on")  # keys of steps whose value is one
_OF_NODES = ("start", "resume", "free", "heal")  # acts that are no faults, and name nodes or links

Move = Callable[[int], int]


def named_brokers(scenario: Scenario) -> list[int]:
    """The brokers that it names, in the order of their ids."""
    seen: set[int] = set()

    def note(node: int) -> int:
        seen.add(node)
        return node

    _moved(scenario, note)
    return sorted(node for node in seen if 0 <= node < COORDINATION)


def recast(scenario: Scenario, brokers: Sequence[int]) -> tuple[Scenario, Mapping[int, int]]:
    """The scenario for a cluster of these brokers, and who stands for whom; nobody where it names none but them.

    Raises UsageError if it names more than there are.
    """
    named, there = named_brokers(scenario), sorted(brokers)
    if set(named) <= set(there):
        return replace(scenario, cluster=replace(scenario.cluster, brokers=tuple(there))), {}
    if len(named) > len(there):
        raise UsageError(
            f"it names {len(named)} brokers ({_listed(named)}), and the cluster has {len(there)} ({_listed(there)})"
        )
    roles = dict(zip(named, there, strict=False))
    moved = _moved(scenario, lambda node: roles.get(node, node))
    return replace(moved, cluster=replace(moved.cluster, brokers=tuple(there))), roles


def _listed(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, nodes))


def _moved(scenario: Scenario, move: Move) -> Scenario:
    return replace(
        scenario,
        topics=tuple(_topic(topic, move) for topic in scenario.topics),
        faults=tuple(_fault(fault, move) for fault in scenario.faults),
        steps=tuple(_step(step, move) for step in scenario.steps),
    )


def _topic(topic: TopicSpec, move: Move) -> TopicSpec:
    if topic.assignment is None:
        return topic
    return replace(topic, assignment=tuple(tuple(map(move, replicas)) for replicas in topic.assignment))


def _fault(fault: FaultSpec, move: Move) -> FaultSpec:
    options = {key: _links(value, move) if key == "links" else value for key, value in fault.options.items()}
    return replace(fault, target=_target(fault.target, move), options=options)


def _step(step: StepSpec, move: Move) -> StepSpec:
    body = dict(_of_step(step, move))
    if body == step.body:
        return step
    return replace(read_step({step.kind: body}, line=step.line), within_s=step.within_s)


def _of_step(step: StepSpec, move: Move) -> Iterator[tuple[str, Any]]:
    first = next(iter(step.body))
    for key, value in step.body.items():
        names_nodes = key == first and step.kind == "act" and (key in _OF_NODES or key not in ACTS)
        if names_nodes:
            yield key, _target(value, move)
        elif key == "links":
            yield key, _links(value, move)
        elif key == "assignment":
            yield key, [_ids(replicas, move) for replicas in value] if isinstance(value, list) else value
        elif step.kind != "act" and key in LISTS_BROKERS:
            yield key, _ids(value, move)
        elif step.kind != "act" and key in KEYED_BY_BROKER:
            yield key, _keyed(value, move, leads=key == "leader_seen_by")
        elif step.kind != "act" and key in ONE_BROKER:
            yield key, _id(value, move)
        else:
            yield key, value


# ---- values, as the file has them: what is of another kind stays, and plan.py says what is wrong with it ------------


def _id(value: Any, move: Move) -> Any:
    return move(value) if type(value) is int else value


def _ids(value: Any, move: Move) -> Any:
    return [_id(node, move) for node in value] if isinstance(value, list) else value


def _keyed(value: Any, move: Move, *, leads: bool) -> Any:
    """leads: each broker is told another one."""
    if not isinstance(value, Mapping):
        return value
    return {
        str(move(int(node))) if is_number(str(node)) else node: _id(recorded, move) if leads else recorded
        for node, recorded in value.items()
    }


def _links(value: Any, move: Move) -> Any:
    return [links.moved(str(name), move) for name in value] if isinstance(value, list | tuple) else value


def _target(value: Any, move: Move) -> Any:
    """A target's expression, or links: some acts name these."""
    if isinstance(value, list | tuple):
        return [_target(each, move) for each in value]
    if not isinstance(value, str):
        return _id(value, move)
    try:
        return Target.parse(value).moved(move)
    except UsageError:
        return links.moved(value, move)
