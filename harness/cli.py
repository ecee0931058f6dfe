"""The command line: parses, calls compose, prints, and exits by verdict. Errors of users and machines are one line."""

import errno
import json
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import checking, cli_checking, compose, machine, presentation, verification
from harness.cli_options import (
    MASTER,
    MEMORY,
    RUNS,
    AttachedOption,
    BootstrapOption,
    ClientOption,
    KafkaHomeOption,
    MasterOption,
    MemoryOption,
    RunsOption,
    SeedOption,
    SetOption,
    SystemOption,
    WorldOption,
    aside,
    attachment,
    run_folder,
    system_named,
    target,
    terminal,
)  # fmt: skip
from harness.errors import HarnessError, UsageError
from harness.scenario import ClusterSpec
from harness.scenario_file import load, seed_names, shipped_names
from harness.verdict import Verdict

USAGE_ERROR = 2
_OF_THE_MACHINE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # what stands in square brackets stays
    help="Under crashes, partitions and disk loss, did this Kafka-like system keep its promises?",
)


@app.command()
def run(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO|FILE.toml|RUN", help="What to run.")],
    runs: RunsOption = RUNS,
    seed: SeedOption = None,
    overrides: SetOption = None,
    system: SystemOption = None,
    world: WorldOption = None,
    kafka_home: KafkaHomeOption = None,
    client: ClientOption = None,
    bootstrap: BootstrapOption = None,
    attached: AttachedOption = None,
    master: MasterOption = MASTER,
    memory_mb: MemoryOption = MEMORY,
) -> None:
    """Runs a scenario, judges it and writes its page; the exit code is the verdict's."""
    reference = scenario
    if not scenario.endswith(".toml") and (runs / scenario / "run.json").is_file():
        reference = str(runs / scenario)
    began = time.monotonic()
    with presentation.Live(terminal, master=master) as live:
        folder, outcome = compose.run_scenario(
            reference,
            runs=runs,
            seed=seed,
            overrides=[
                *attachment(system, bootstrap, attached),
                *target(system, world, kafka_home, client),
                *(overrides or []),
            ],
            command=["kafka-chaos", *sys.argv[1:]],
            progress=live.show,
            on_healed=live.healed,
            tell=terminal.say,
        )
    ended = time.monotonic()
    bench = live.bench or compose.Bench(master=master, folders=[folder.path])
    try:
        with checking.Stages(aside.say) as stages:
            judged = bench.judge(folder.path, progress=stages.begins)
        if outcome.error:
            terminal.say(f"The run could not be done: {outcome.error}")
        presentation.print_outcome(terminal, judged)
        terminal.say(f"run {ended - began:.1f} s, verdict {time.monotonic() - ended:.1f} s after it ended", style="dim")
    finally:
        bench.close()  # once on a machine this takes long: class_archive.py
    raise typer.Exit(judged.judgement.exit_code)


cli_checking.add_to(app)


@app.command()
def scenarios(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these.")] = None,
    only_names: Annotated[bool, typer.Option("--names", help="Names alone, one a line.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Run them; exit 0 only if every outcome is as stated.")
    ] = False,
    seeds: Annotated[bool, typer.Option("--seeds", help="Those that show the claims of the seed documents.")] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 1,
    runs: RunsOption = RUNS,
    seed: SeedOption = None,
    junit: Annotated[Path | None, typer.Option(help="Where to write JUnit XML.")] = None,
    overrides: SetOption = None,
    system: SystemOption = None,
    world: WorldOption = None,
    kafka_home: KafkaHomeOption = None,
    client: ClientOption = None,
    bootstrap: BootstrapOption = None,
    attached: AttachedOption = None,
    master: MasterOption = MASTER,
    memory_mb: MemoryOption = MEMORY,
) -> None:
    """Lists the shipped scenarios, or runs them and holds each against its stated outcome."""
    chosen = [*(names or []), *(seed_names() if seeds else [])] or shipped_names()
    if not verify:
        _list_scenarios(chosen, only_names=only_names)
        if not (names or seeds or only_names):
            for line in ("", "The claims of the seed documents (docs/seed_claims.md):", ""):
                terminal.say(line)
            _list_scenarios(seed_names(), only_names=only_names)
        return
    if junit is not None and not junit.absolute().parent.is_dir():
        raise UsageError(f"--junit {junit}: there is no folder {junit.absolute().parent}")  # said before the runs
    table = verification.verify(
        chosen,
        repeat=repeat,
        runs=runs,
        seed=seed,
        overrides=[
            *attachment(system, bootstrap, attached),
            *target(system, world, kafka_home, client),
            *(overrides or []),
        ],
        master=master,
        tell=terminal.say,
    )
    if junit is not None:
        verification.write_junit(table, junit)
    raise typer.Exit(0 if all(cell.as_stated for cell in table) else 1)


def _list_scenarios(names: Sequence[str], *, only_names: bool) -> None:
    for name in names:
        if only_names:
            terminal.say(name)
        else:
            story = load(name).story  # first: an unknown name prints nothing
            terminal.say(name, style="bold")
            terminal.say(f"  {story}")


@app.command()
def compare(
    stored: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=]RUN...", help="Runs that were made before.")
    ] = None,
    scenario: Annotated[str | None, typer.Option(help="What to run on each.")] = None,
    systems: Annotated[list[str] | None, typer.Option("--system", help="A column: a system under test.")] = None,
    variants: Annotated[
        list[str] | None, typer.Option("--variant", metavar="NAME:KEY=VALUE,...", help="A column: other settings.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each; the spread between them is what decides.")] = 5,
    runs: RunsOption = RUNS,
    out: Annotated[Path | None, typer.Option(help="Where the page goes; below --runs if not given.")] = None,
    seed: SeedOption = None,
    overrides: SetOption = None,
    world: WorldOption = None,
    client: ClientOption = None,
    master: MasterOption = MASTER,
    memory_mb: MemoryOption = MEMORY,
) -> None:
    """Puts systems, settings or stored runs of one scenario side by side, and says what differs."""
    if bool(stored) == bool(scenario):
        raise UsageError("give runs to compare, or --scenario with --system or --variant twice")
    from harness import comparison_runs

    if stored:
        found = [comparison_runs.stored_run(each, lambda name: run_folder(name, runs)) for each in stored]
        page, told = comparison_runs.compare_stored(found, runs=runs, out=out, master=master, tell=terminal.say)
    else:
        page, told = comparison_runs.compare_scenario(
            scenario or "",
            comparison_runs.variants_of(systems or [], variants or []),
            repeat=repeat,
            runs=runs,
            out=out,
            seed=seed,
            overrides=[*target(None, world, None, client), *(overrides or [])],
            master=master,
            tell=terminal.say,
        )
    raise typer.Exit(presentation.print_comparison(terminal, page, told))


@app.command()
def cluster(
    brokers: Annotated[int, typer.Option(min=1, max=9, help="How many.")] = 3,
    ready_file: Annotated[
        Path | None, typer.Option(help="Gets the addresses as JSON once the cluster is ready.")
    ] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A broker setting.")] = None,
    system: SystemOption = None,
    kafka_home: KafkaHomeOption = None,
) -> None:
    """Runs a cluster alone, in the foreground, until Ctrl-C."""

    def ready(addresses: dict[str, str]) -> None:
        if ready_file is not None:
            unfinished = ready_file.with_name(ready_file.name + ".unfinished")
            try:
                unfinished.write_text(json.dumps(addresses), encoding="utf-8")
                unfinished.replace(ready_file)
            except OSError as error:
                raise HarnessError(f"--ready-file {ready_file} cannot be written: {error.strerror}") from error
        for name, address in addresses.items():
            terminal.say(f"{name:<14}{address}")
        terminal.say("Ctrl-C ends it and leaves nothing.")

    named = system_named(system, kafka_home) or "reference"
    spec = ClusterSpec(brokers=tuple(range(1, brokers + 1)), settings=_settings(overrides or []), system=named)
    compose.run_cluster(spec, ready=ready)


def _settings(overrides: Sequence[str]) -> dict[str, str]:
    settings = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise UsageError(f"--set {override}: write KEY=VALUE, for example min.insync.replicas=2")
        settings[key.strip()] = value.strip()
    return settings


@app.command("fetch-kafka")
def fetch_kafka(
    versions: Annotated[list[str], typer.Argument(metavar="VERSION...", help="4.3.1, or its beginning: 4.3 or 4.")],
) -> None:
    """Gets Kafka's own jars from Maven Central, once, into the user's cache."""
    machine.fetch_kafka(versions, tell=terminal.say)


@app.command()
def sweep() -> None:
    """Ends what runs left behind whose harness is gone. Every other command does so too, first."""
    # main() has done it by now, and said what it ended.
    terminal.say("Nothing is left behind.")


@app.command()
def doctor() -> None:
    """Says what this machine has, what is missing, and what that means."""
    raise typer.Exit(presentation.print_health(terminal, machine.health()))


@app.command(hidden=True)
def worker(spec: str) -> None:
    """One client process of a workload."""
    compose.worker(spec)


def main() -> None:
    """The entry point: sweeps, obeys, and turns every foreseen error into one line and an exit code."""
    arguments = sys.argv[1:]
    try:
        if arguments[:1] not in (["worker"], ["--help"], []):
            for told in compose.sweep():
                aside.say(f"swept: {told}")
        code: Any = app(standalone_mode=False)
    except UsageError as error:
        sys.exit(_fail(str(error), USAGE_ERROR))
    except HarnessError as error:
        sys.exit(_fail(str(error), Verdict.ERROR.exit_code))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # noqa: BLE001  # the last one, which tells it
        if isinstance(error, OSError) and error.filename is not None:
            if error.errno == errno.ENAMETOOLONG:
                sys.exit(_fail(f"{error.filename!s:.200}...: {error.strerror}", USAGE_ERROR))
            if error.errno in _OF_THE_MACHINE:
                sys.exit(_fail(f"{error.filename}: {error.strerror}", Verdict.ERROR.exit_code))
        # Typer's own usage errors show themselves in its way; anything else is a bug of ours and keeps its traceback.
        # Not Python's way out with it: 1 is a violation, and what the error says is not ours alone.
        if not hasattr(error, "exit_code") or not hasattr(error, "format_message"):
            for line in "".join(traceback.format_exception(error)).splitlines():
                aside.say(line)
            sys.exit(Verdict.ERROR.exit_code)
        sys.exit(_fail(error.format_message(), int(error.exit_code)))
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> int:
    aside.say(f"kafka-chaos: {message}")
    return code
