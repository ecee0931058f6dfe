"""Whether the clients of a run will be let in by somebody else's cluster, and may do there what the run does.

The listeners are asked, and nothing is changed: what is wrong with certificates, users and passwords, and which
authorizations lack, is told before anything is begun.
"""

import asyncio

from harness.clients import catalogue as clients
from harness.cluster.attached.administration import ADDRESS
from harness.cluster.attached.authorizations import Lacking, Wanted, lacking
from harness.cluster.attached.listener import refusal_of
from harness.cluster.broker_requests import connections
from harness.controller.run import topic_definitions
from harness.errors import Problem
from harness.ports.security import SecuritySpec
from harness.scenario.model import Scenario
from harness.scenario.places import Places


def problems(
    scenario: Scenario | None, security: SecuritySpec | None, listener: ADDRESS | None, places: Places
) -> list[Problem]:
    """`listener`: one where somebody listens; None: nobody does, or only the run finds out where.

    Authorizations are asked for where users are told apart.
    """
    if security is not None:
        found = [
            Problem(place=places.security(key), what=what, remedy=remedy)
            for key, what, remedy in security.contradictions()
        ]
        found = found or [Problem(place=places.security(lack.key), what=str(lack)) for lack in security.check()]
        if found:
            return found
    if listener is None:
        return []
    refused = asyncio.run(refusal_of(listener, security))
    if refused is not None:
        place = places.key("cluster", "bootstrap") if security is None else places.security(refused.key)
        return [Problem(place=place, what=refused.what, remedy=refused.remedy)]
    if security is None or scenario is None:
        return []
    return [
        Problem(place=places.security(), what=f"{_user(security)} lacks {lack}", remedy="have it granted by an ACL")
        for lack in asyncio.run(_lacking(security, listener, _wanted(scenario)))
    ]


def _user(security: SecuritySpec) -> str:
    return f"user {security.user}" if security.user else "the user of this certificate or token"


async def _lacking(security: SecuritySpec, listener: ADDRESS, wanted: Wanted) -> list[Lacking]:
    connection = connections(security)(*listener)
    try:
        return await lacking(connection, wanted)
    except (OSError, TimeoutError):
        return []  # which the run will say
    finally:
        connection.close()


def _wanted(scenario: Scenario) -> Wanted:
    workload, facts = scenario.workload, scenario.workload.facts
    acts = [next(iter(step.body)) for step in scenario.steps if step.kind == "act"]
    return Wanted(
        topics=topic_definitions(scenario),
        group=facts.group,
        looked_up_group=clients.looked_up_group(workload.client) if facts.clients.get("consumer") else "",
        transactional_ids=facts.transactional_ids,
        idempotent=workload.idempotent and workload.workers > 0,
        elects="elect" in acts,
        configures="configure" in acts,
    )
