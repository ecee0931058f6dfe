"""The command that shows the runs in a browser of this machine."""

import ipaddress
from typing import Annotated

import typer

from harness.cli.options import MEMORY, RUNS, MemoryOption, RunsOption, terminal
from harness.errors import UsageError

LOOPBACK = "127.0.0.1"
PORT = 8790


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise UsageError(f"--listen {text}: give an IP address, for example {LOOPBACK}") from None


def serve(
    runs: RunsOption = RUNS,
    listen: Annotated[
        str, typer.Option(callback=_address, metavar="ADDRESS", help="Where it listens; loopback if not given.")
    ] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = PORT,
    names: Annotated[
        list[str] | None, typer.Option("--name", metavar="HOST", help="A host name by which it may be called.")
    ] = None,
    memory_mb: MemoryOption = MEMORY,
) -> None:
    """Shows runs, campaigns and a run in progress in a browser; read-only."""
    from harness.web import server  # with pandas: a third of what a command takes to begin

    server.serve(server.Server(runs, address=listen, port=port, names=names or []), tell=terminal.say)


def add_to(app: typer.Typer) -> None:
    app.command()(serve)
