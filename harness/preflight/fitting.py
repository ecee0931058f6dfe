"""Fits a scenario to somebody else's cluster, which has brokers of its own: it is asked who they are, and nothing else.

The ids that the scenario names stand for them (recast.py), topics whose replicas nobody counted get as many as there
are brokers for, and what cannot be on so few brokers is known before the run.
"""

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from harness.cluster.attached.administration import ADDRESS
from harness.cluster.attached.cluster import answers_at, registered
from harness.cluster.attached.front_ends import OtherTopology, numbered
from harness.errors import HarnessError, UsageError
from harness.ports.cluster import NodeId
from harness.scenario.model import DEFAULT_REPLICAS, ClusterSpec, Scenario
from harness.scenario.recast import recast


class Registered:
    """The brokers of clusters, each of which is asked once, however many scenarios are for it."""

    def __init__(self) -> None:
        self._of: dict[Hashable, Sequence[int]] = {}

    def of(self, on: ClusterSpec) -> Sequence[int]:
        by = on.attached
        cluster = (on.system, on.bootstrap, by.security, by.project, tuple(by.services.items()), by.front_ends)
        if cluster not in self._of:
            self._of[cluster] = brokers_of(on)
        return self._of[cluster]


def fitted(scenario: Scenario, asked: Registered) -> Scenario:
    """As it is where the cluster is ours, or does not tell who its brokers are: then the rest of the preflight says
    why."""
    if not scenario.cluster.is_foreign:
        return scenario
    try:
        brokers = asked.of(scenario.cluster)
    except OtherTopology as other:
        return replace(scenario, not_here=scenario.not_here or str(other))
    if not brokers:
        return scenario
    traits = replace(scenario.traits, brokers=tuple(brokers))
    replicas = 1 if scenario.cluster.attached.front_ends else min(DEFAULT_REPLICAS, len(brokers))
    topics = tuple(
        replace(topic, replication_factor=replicas)
        if topic.assignment is None and topic.replication_factor is None
        else topic
        for topic in scenario.topics
    )
    try:
        there, roles = recast(replace(scenario, topics=topics), brokers)
    except UsageError as error:
        return replace(scenario, not_here=scenario.not_here or str(error))
    return replace(there, traits=traits, roles=roles)


def brokers_of(on: ClusterSpec) -> Sequence[int]:
    """The registered ones, or front ends by number; none where nobody tells. Raises OtherTopology."""
    bootstrap = on.bootstrap
    try:
        if on.is_compose and not bootstrap:
            from harness.cluster.attached import compose_project  # its libraries take a while to load

            engine, containers = compose_project.find(on)
            engine.close()
            bootstrap = compose_project.published(containers.values())
        if not bootstrap:
            return ()
        known = asyncio.run(_known(bootstrap, on))
    except OtherTopology:
        raise
    except (HarnessError, OSError):
        return ()
    return sorted(int(node) for node in known)


async def _known(bootstrap: str, on: ClusterSpec) -> Mapping[NodeId, ADDRESS]:
    security = on.attached.security
    if on.attached.front_ends:
        return numbered(await answers_at(bootstrap, "--bootstrap", security=security))[0]
    return await registered(bootstrap, "--bootstrap", security=security)
