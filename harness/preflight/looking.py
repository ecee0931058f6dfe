"""Checks a scenario and its target before anything is started: reports every problem, not only the first."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.clients import catalogue as clients
from harness.errors import Problem, Problems, UsageError
from harness.preflight import capabilities, names, old_brokers, order, refusals, settings, target, topology
from harness.scenario.file import load
from harness.scenario.model import ClusterSpec, Scenario
from harness.scenario.names import nearest
from harness.scenario.places import Places
from harness.systems import traits_of


def ready(reference: str, *, overrides: Sequence[str] = (), checks: bool = True) -> Scenario:
    """The scenario that `reference` names. Raises Problems, with all of them, if anything is known to be wrong.

    `checks`: whether its run will be judged on this machine.
    """
    (scenario,) = all_ready([(reference, overrides)], checks=checks)
    return scenario


def all_ready(
    wanted: Sequence[tuple[str, Sequence[str]]],
    *,
    checks: bool = True,
    leave_out: bool = False,
) -> list[Scenario]:
    """Like `ready` for several (reference, overrides). leave_out: those that are not for their system, or that this
    machine cannot do, need not be ready; `not_here` says why.
    """
    scenarios: list[Scenario] = []
    found: list[Problem] = []
    for reference, overrides in wanted:
        try:
            scenario = load(reference, overrides=overrides, traits_of=traits_of)
        except Problems as error:
            found += error.problems
        except UsageError as error:
            found.append(Problem(what=str(error)))
        else:
            problems = [] if leave_out and scenario.not_here else preflight(scenario, scenario.cluster, checks=checks)
            if leave_out and problems and all(each.of_machine for each in problems):
                scenario, problems = replace(scenario, not_here=problems[0].what), []
            scenarios.append(scenario)
            found += problems
    refuse(found)
    return scenarios


def refuse(problems: Sequence[Problem]) -> None:
    """Raises Problems, if there are any."""
    if problems:
        raise Problems(problems)


def preflight(
    scenario: Scenario | None, on: ClusterSpec, *, checks: bool = True, places: Places | None = None
) -> list[Problem]:
    """Everything known in advance that prevents a run of this scenario on this target, each with its place.

    No scenario: checks a cluster alone; `places` says where it was requested.
    """
    if scenario is None:
        return target.problems(on, places or Places(), checks=checks)
    found = target.problems(on, scenario.places, checks=checks, scenario=scenario)
    found += _for_another_system(scenario, on)
    found += _of_workload(scenario)
    found += order.problems_of_times(scenario)
    if (traits := target.known_traits(on)) is not None:
        members = topology.of(scenario)
        found += names.problems(scenario, members)
        found += order.problems(scenario, members)
        found += capabilities.problems(scenario)
        found += settings.problems(scenario, traits)
        found += old_brokers.problems(scenario, traits)
        found += refusals.problems(scenario, traits, members)
    return sorted(dict.fromkeys(found), key=lambda problem: problem.place.line)


def _for_another_system(scenario: Scenario, on: ClusterSpec) -> Iterator[Problem]:
    if scenario.not_here:
        place = scenario.places.key("cluster", "system")
        yield Problem(place=place, what=f"scenario {scenario.name} is not for {on.system}: {scenario.not_here}")


def _of_workload(scenario: Scenario) -> Iterator[Problem]:
    workload, places = scenario.workload, scenario.places
    if workload.client not in clients.CLIENTS:
        known = nearest(workload.client, tuple(clients.CLIENTS))
        yield Problem(place=places.key("workload", "client"), what=f"unknown client {workload.client!r}", remedy=known)
    else:
        try:
            clients.check_installed(workload.client)
        except UsageError as error:
            yield Problem(place=places.key("workload", "client"), what=str(error))
    topics = [topic.name for topic in scenario.topics]
    for topic in workload.topics:
        if topic not in topics:
            what = f"the workload's topic {topic!r} is not in [[topics]]: {topics}"
            yield Problem(place=places.key("workload", "topics"), what=what)
