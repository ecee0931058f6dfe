"""Checks a scenario and its target before anything is started: reports every problem, not only the first."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.clients import catalogue as clients
from harness.cluster.catalogue import traits_of
from harness.errors import Problem, Problems, UsageError, nearest
from harness.preflight import capabilities, front_ends, java_clients, plan, refusals, target
from harness.preflight.fitting import Registered, fitted
from harness.scenario.file import Draft, drafted
from harness.scenario.model import Scenario, Traits


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
    machine cannot do, need not be ready; `not_here` and `not_possible` say why.
    """
    scenarios: list[Scenario] = []
    found: list[Problem] = []
    asked = Registered()
    for reference, overrides in wanted:
        try:
            scenario = fitted(for_its_system(drafted(reference, overrides=overrides)), asked)
        except Problems as error:
            found += error.problems
        except UsageError as error:
            found.append(Problem(what=str(error)))
        else:
            problems = [] if leave_out and scenario.not_here else preflight(scenario, checks=checks)
            if leave_out and problems and all(each.of_machine for each in problems):
                scenario, problems = replace(scenario, not_possible=problems[0].what), []
            scenarios.append(scenario)
            found += problems
    refuse(found)
    return scenarios


def why_left_out(scenario: Scenario) -> str:
    """In words for a list of scenarios; "": it can run here."""
    if scenario.not_here:
        return f"not for {scenario.cluster.system}: {scenario.not_here}"
    where = "with this cluster" if scenario.cluster.is_foreign else "here"
    return f"not possible {where}: {scenario.not_possible}" if scenario.not_possible else ""


def for_its_system(draft: Draft) -> Scenario:
    """Raises Problems, with all of them: a system that nobody knows is one."""
    traits = Traits()
    try:
        traits = traits_of(draft.cluster)
    except UsageError as error:
        draft.wrong_system(error)
    return draft.scenario(traits)


def refuse(problems: Sequence[Problem]) -> None:
    """Raises Problems, if there are any."""
    if problems:
        raise Problems(problems)


def preflight(scenario: Scenario, *, checks: bool = True) -> list[Problem]:
    """Everything known in advance that prevents a run of this scenario, each with its place."""
    on = scenario.cluster
    found = target.problems(on, scenario.places, checks=checks, scenario=scenario)
    found += _for_another_system(scenario)
    found += _of_workload(scenario)
    found += java_clients.problems(scenario)
    found += plan.times(scenario)
    if (kind := target.kind_of(on)) is not None:
        topology = plan.topology_of(scenario)
        found += plan.names(scenario, topology)
        found += plan.order(scenario, topology)
        found += capabilities.problems(scenario, kind)
        found += front_ends.problems(scenario)
        found += refusals.problems(scenario, topology)
    return sorted(dict.fromkeys(found), key=lambda problem: problem.place.line)


def _for_another_system(scenario: Scenario) -> Iterator[Problem]:
    if scenario.not_here:
        place = scenario.places.key("cluster", "system")
        yield Problem(
            place=place, what=f"scenario {scenario.name} is not for {scenario.cluster.system}: {scenario.not_here}"
        )


def _of_workload(scenario: Scenario) -> Iterator[Problem]:
    workload, places = scenario.workload, scenario.places
    if workload.client not in clients.NAMES:
        known = nearest(workload.client, clients.NAMES)
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
