"""The command that holds a cluster against Kafka's protocol, row by row."""

import asyncio
import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.ci.junit import write_junit
from harness.cli.options import AttachedOption, aside, attachment, can_be_written, terminal
from harness.cluster.attached.administration import ADDRESS, addresses_of
from harness.cluster.broker_requests import Connect, connections
from harness.conform import rendering
from harness.conform.asking import ALL_S, READING_ROWS, ROWS, delete_all, results
from harness.conform.probe import probing_each, views
from harness.conform.row import Result, Row, State
from harness.errors import HarnessError, Problems, UsageError, nearest
from harness.host.clock import SystemClock
from harness.preflight.target import refused_access
from harness.scenario.file import read_security
from harness.scenario.places import Override

_STYLES = {State.VIOLATES: "bold red", State.UNDECIDED: "yellow", State.CONFORMS: "green", State.NOT_OFFERED: "dim"}


def row_names(incomplete: str) -> list[str]:
    """For the shell's completion."""
    return [row.name for row in ROWS if row.name.startswith(incomplete)]


def conform(
    bootstrap: Annotated[str, typer.Argument(metavar="BOOTSTRAP", help="HOST:PORT,... of the cluster.")],
    names: Annotated[
        list[str] | None,
        typer.Option("--row", metavar="NAME", help="Only this row; may be repeated.", autocompletion=row_names),
    ] = None,
    only_reads: Annotated[
        bool, typer.Option("--reads", help="Only what leaves nothing behind and makes nothing: no topic, no group.")
    ] = False,
    whole: Annotated[
        bool, typer.Option("--all", help="What is expected, and which text that follows, of each row.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document, with every fact of every row.")] = False,
    junit: Annotated[Path | None, typer.Option(callback=can_be_written, help="Where to write JUnit XML.")] = None,
    attached: AttachedOption = None,
    within_s: Annotated[int, typer.Option("--within", min=1, metavar="SECONDS", help="For all rows.")] = int(ALL_S),
) -> None:
    """Asks a cluster whether it keeps Kafka's protocol: versions, fields, errors, groups, transactions, a row each."""
    rows = _chosen(names or [], READING_ROWS if only_reads else ROWS)
    addresses, connect = _connections(bootstrap, attached)
    found, marks, left = asyncio.run(
        _ask(addresses, rows, connect=connect, within_s=within_s, whole=whole, quiet=as_json)
    )
    if as_json:
        terminal.say(json.dumps(rendering.document(found, bootstrap=bootstrap, marks=marks, left=left)))
    else:
        terminal.say(rendering.headline(found))
    if junit is not None:
        write_junit(rendering.cases(found), junit, suite="kafka-chaos conform")
    raise typer.Exit(rendering.exit_code(found))


def _addresses(bootstrap: str) -> list[ADDRESS]:
    try:
        found = addresses_of(bootstrap, "BOOTSTRAP")
    except HarnessError as error:
        raise UsageError(str(error)) from None
    if not found:
        raise UsageError('BOOTSTRAP: name an address of the cluster, "host:port"')
    return found


def _connections(bootstrap: str, attached: Path | None) -> tuple[list[ADDRESS], Connect]:
    """Where to ask and how to get in, by the file's [attached.security]. Raises Problems for what lets nobody in."""
    addresses = _addresses(bootstrap)
    said = Override(f"cluster.bootstrap={bootstrap}", f"BOOTSTRAP {bootstrap}")
    security, places = read_security([*attachment(None, None, attached), said])
    if found := refused_access(None, security, addresses[0], places):
        raise Problems(found)
    return addresses, connections(security)


def _chosen(names: Sequence[str], rows: Sequence[Row]) -> Sequence[Row]:
    """Raises UsageError."""
    known = {row.name: row for row in ROWS}
    for name in names:
        if name not in known:
            raise UsageError(f"--row {name}: no such row; {nearest(name, tuple(known))}")
    return [row for row in rows if row.name in names] if names else rows


async def _ask(
    addresses: Sequence[ADDRESS], rows: Sequence[Row], *, connect: Connect, within_s: float, whole: bool, quiet: bool
) -> tuple[list[Result], list[str], list[str]]:
    """(what each row came to, the marks of all that was made, what of it is left). Raises HarnessError.

    The first Ctrl-C or SIGTERM has what was made deleted, the second ends at once.
    """
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # asyncio's own, which cancels this task
    found: list[Result] = []
    seen, silent = await views(addresses, connect=connect)
    for why in silent:
        aside.say(f"kafka-chaos: not asked: {why}")
    async with probing_each(seen, connect=connect, clock=SystemClock()) as probes:
        try:
            async for result in results(probes, rows, all_s=within_s):
                found.append(result)
                if not quiet:
                    head, *more = rendering.lines(result, whole=whole)
                    terminal.say(head, style=_STYLES[result.state])
                    for line in more:
                        terminal.say(line)
        except asyncio.CancelledError:
            aside.say("kafka-chaos: interrupted: what was made is deleted first; once more ends it at once")
            raise
        finally:
            left = await delete_all(probes)
            for line in left:
                aside.say(f"kafka-chaos: {line}")
    return found, [probe.mark for probe in probes.values()], left


def add_to(app: typer.Typer) -> None:
    app.command()(conform)
