"""The command that runs one schedule over releases."""

from typing import Annotated

import typer

from harness.cli.options import (
    MASTER,
    MEMORY,
    RUNS,
    ClientOption,
    MasterOption,
    MemoryOption,
    RunArgument,
    RunsOption,
    SeedOption,
    SetOption,
    WorldOption,
    run_folder,
    target,
    terminal,
)


def bisect(
    run: RunArgument,
    finding: Annotated[str, typer.Argument(metavar="FINDING", help="For example F1, or a fingerprint.")],
    versions: Annotated[
        str, typer.Option(metavar="VERSION,...", help="Kafka's releases, oldest first: 2.8.2,3.9.1,4.3.1.")
    ] = "",
    systems: Annotated[
        list[str] | None, typer.Option("--system", help="A further system, after the releases, in the order given.")
    ] = None,
    variants: Annotated[
        list[str] | None, typer.Option("--variant", metavar="NAME:KEY=VALUE,...", help="Further: other settings.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each release; one that shows it is enough.")] = 1,
    runs: RunsOption = RUNS,
    seed: SeedOption = None,
    overrides: SetOption = None,
    world: WorldOption = None,
    client: ClientOption = None,
    master: MasterOption = MASTER,
    memory_mb: MemoryOption = MEMORY,
) -> None:
    """Runs the schedule of a stored run over releases, and says where its finding appeared or went."""
    from harness.cli import bisection  # with pandas: a third of what a command takes to begin

    folder = run_folder(run, runs)
    wanted = bisection.wanted_finding(folder, finding)
    tries = bisection.bisect(
        folder,
        wanted,
        bisection.releases_of(versions, systems or [], variants or []),
        repeat=repeat,
        runs=runs,
        seed=seed,
        overrides=[*target(None, world, None, client), *(overrides or [])],
        master=master,
        tell=terminal.say,
    )
    for line in (*bisection.table(tries), *bisection.conclusion(tries, wanted)):
        terminal.say(line)
    raise typer.Exit(bisection.exit_code(tries))


def add_to(app: typer.Typer) -> None:
    app.command()(bisect)
