"""One row asked of a cluster, through liars or not."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.cluster.attached.administration import addresses_of
from harness.cluster.broker_requests import BrokerConnection
from harness.conform.asking import ROWS, results
from harness.conform.probe import probing, reach
from harness.conform.row import Result, State
from harness.host.clock import SystemClock
from harness.ports.cluster import NodeId
from tests.end_to_end.shell import Shell
from tests.harness.conform.falsifying import Lie, lying
from tests.waiting import until

Addresses = Mapping[NodeId, tuple[str, int]]
NAMED = {row.name: row for row in ROWS}


@contextmanager
def cluster(folder: Path, *arguments: str) -> Iterator[Addresses]:
    """`kafka-chaos cluster` with these arguments, and where its brokers are."""
    shell, ready = Shell(directory=folder.resolve()), folder / "ready.json"
    process = shell.start("cluster", "--ready-file", str(ready), *arguments)
    try:
        until(lambda: ready.is_file() or process.poll() is not None, "the cluster is up")
        assert ready.is_file(), shell.output.read_text()
        bootstrap = json.loads(ready.read_text())["bootstrap"]
        yield asyncio.run(reach(addresses_of(bootstrap, "ready"), connect=BrokerConnection))
    finally:
        os.kill(process.pid, signal.SIGINT)
        process.wait(60)


def asked(addresses: Addresses, name: str, lie: Lie | None = None) -> tuple[Result, int]:
    """(what it came to, how many answers were altered)"""

    async def ask() -> tuple[Result, int]:
        async with (
            lying(addresses, lie) as (liars, liar),
            probing(liars, connect=BrokerConnection, clock=SystemClock()) as probe,
        ):
            (result,) = [each async for each in results({"there": probe}, [NAMED[name]])]
            return result, liar.altered

    return asyncio.run(ask())


def shown(result: Result) -> Sequence[str]:
    """For the message of a test that fails."""
    return [str(fact) for fact in result.facts if not fact.holds] or [result.seen]


def falls_for_no(addresses: Addresses, name: str, lie: Lie) -> None:
    result, altered = asked(addresses, name, lie)
    assert altered, "the lie was never told"
    assert result.state is State.VIOLATES, (result.state, result.seen)
    broken = [fact.what for fact in result.facts if not fact.holds]
    assert any(lie.breaks in each for each in broken), (lie.breaks, shown(result))
