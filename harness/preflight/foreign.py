"""What is to be known of somebody else's cluster before a run: the rows of `kafka-chaos conform` that merely read.

None of them is a reason not to run: what a cluster promises otherwise is what a run may be about.
"""

import asyncio
from collections.abc import Sequence

from harness.cluster.attached.administration import addresses_of
from harness.cluster.broker_requests import Connect, connections
from harness.conform.asking import READING_ROWS, results
from harness.conform.probe import probing, reach
from harness.conform.row import State
from harness.errors import HarnessError
from harness.host.clock import SystemClock
from harness.scenario.model import ClusterSpec

_WITHIN_S = 30.0


def notes(on: ClusterSpec) -> Sequence[str]:
    """A line for each row that is broken or could not be asked."""
    if not (on.is_foreign and on.bootstrap):
        return ()
    return asyncio.run(_notes(on.bootstrap, connections(on.attached.security)))


async def _notes(bootstrap: str, connect: Connect) -> list[str]:
    try:
        addresses = await reach(addresses_of(bootstrap, "bootstrap"), connect=connect)
        async with probing(addresses, connect=connect, clock=SystemClock()) as probe:
            found = [each async for each in results(probe, READING_ROWS, all_s=_WITHIN_S)]
    except HarnessError as error:
        return [f"conform: not asked: {error}"]
    told = (State.VIOLATES, State.UNDECIDED)
    return [f"conform: {each.row.name} {each.state.value}: {each.seen}" for each in found if each.state in told]
