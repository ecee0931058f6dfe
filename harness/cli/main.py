"""The command line: parses, looks at what is known beforehand, calls compose, prints, and exits by verdict."""

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import compose
from harness.campaign.accepted import read_accepted
from harness.cli import check_many, client_process, exits, presentation, serving, verification
from harness.cli.commands import (
    bisect,
    campaign,
    check,
    conform,
    explore,
    flaws,
    nightly,
    results,
    serve,
    shrink,
    trends,
)
from harness.cli.controlled import Control
from harness.cli.options import (
    MASTER,
    MEMORY,
    RUNS,
    AcceptedOption,
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
    can_be_written,
    exit_for,
    run_folder,
    scenario_names,
    system_named,
    target,
    terminal,
)
from harness.cli.serving import ReadyFile
from harness.cluster import left_behind
from harness.controller.run import RunOutcome
from harness.errors import HarnessError, UsageError
from harness.history.run_folder import RunFolder
from harness.preflight import capabilities, looking, machine
from harness.preflight import target as targets
from harness.preflight.foreseen import would_be_done
from harness.scenario.file import load, seed_names, shipped_names
from harness.scenario.model import ClusterSpec
from harness.scenario.places import OverriddenKey, Places

PROGRAM = "kafka-chaos"
COMPLETING = "_KAFKA_CHAOS_COMPLETE"  # the shell asks what could come next

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # what stands in square brackets stays
    help="Under crashes, partitions and disk loss, did this Kafka-like system keep its promises?",
)


def _version(wanted: bool) -> None:
    if wanted:
        terminal.say(f"{PROGRAM} {version(PROGRAM)}")
        raise typer.Exit


@app.callback()
def about(
    show_version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Says which version this is.")
    ] = False,
) -> None:
    """Has the options that are of no command."""


@app.command()
def run(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO|FILE.toml|RUN", help="What to run.", autocompletion=scenario_names)
    ],
    runs: RunsOption = RUNS,
    seed: SeedOption = None,
    overrides: SetOption = None,
    system: SystemOption = None,
    world: WorldOption = None,
    kafka_home: KafkaHomeOption = None,
    client: ClientOption = None,
    bootstrap: BootstrapOption = None,
    attached: AttachedOption = None,
    only_preflight: Annotated[
        bool, typer.Option("--preflight", help="Starts nothing: says all that is known against it beforehand.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Whether it is judged; if not, `check RUN` does so anywhere.")
    ] = True,
    accepted: AcceptedOption = None,
    master: MasterOption = MASTER,
    memory_mb: MemoryOption = MEMORY,
) -> None:
    """Runs a scenario, judges it and writes its page; the exit code is the verdict's."""
    reference = scenario
    if not scenario.endswith(".toml") and (runs / scenario / "run.json").is_file():
        reference = str(runs / scenario)
    given = [
        *attachment(system, bootstrap, attached),
        *target(system, world, kafka_home, client),
        *(overrides or []),
    ]
    known = None if accepted is None else read_accepted(accepted)
    ready = looking.ready(reference, overrides=given, checks=check)
    of_cluster = targets.notes(ready.cluster)
    for line in of_cluster:
        terminal.say(line)
    if only_preflight:
        what = "nothing else" if of_cluster else "nothing"
        for line in (*capabilities.notes(ready), *would_be_done(ready)) if ready.cluster.is_foreign else ():
            terminal.say(line)
        terminal.say(f"{ready.name}: {what} is known against it ({ready.cluster.system}, {ready.cluster.where})")
        return
    for line in capabilities.notes(ready):
        terminal.say(line)
    began = time.monotonic()
    with presentation.Live(terminal, master=master, checks=check) as live:
        folder, outcome = compose.run_scenario(
            ready,
            runs=runs,
            seed=seed,
            command=[PROGRAM, *sys.argv[1:]],
            progress=live.show,
            accepted=known,
            on_healed=live.healed,
            tell=terminal.say,
        )
    took_s = time.monotonic() - began
    raise typer.Exit(
        _judge(folder, outcome, live.session, master, took_s)
        if check
        else presentation.recorded(terminal, folder, outcome)
    )


def _judge(
    folder: RunFolder, outcome: RunOutcome, session: compose.JudgingSession | None, master: str, took_s: float
) -> int:
    """The exit code of the verdict."""
    ended = time.monotonic()
    kept = f"the run is kept; `kafka-chaos check {folder.path}` judges it"
    with exits.interrupted_at_once(kept):
        return _judged(folder, outcome, session, master, took_s=took_s, ended=ended)


def _judged(
    folder: RunFolder,
    outcome: RunOutcome,
    session: compose.JudgingSession | None,
    master: str,
    *,
    took_s: float,
    ended: float,
) -> int:
    session = session or compose.JudgingSession(master=master, folders=[folder.path])
    try:
        with check_many.PhaseReports(aside.say) as phases:
            judged = session.judge(folder.path, progress=phases.begins)
        if outcome.error:
            terminal.say(f"The run could not be done: {outcome.error}")
        presentation.print_outcome(terminal, judged)
        terminal.say(f"run {took_s:.1f} s, verdict {time.monotonic() - ended:.1f} s after it ended", style="dim")
        presentation.print_origin(terminal, folder)
    finally:
        session.close()  # once on a machine this takes long: class_archive.py
    return judged.judgement.exit_code


for each in (check, campaign, explore, shrink, flaws, bisect, serve, trends, results, nightly, conform):
    each.add_to(app)


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
    junit: Annotated[Path | None, typer.Option(callback=can_be_written, help="Where to write JUnit XML.")] = None,
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
    verified = verification.verify(
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
        show=presentation.Steps(terminal, aside).show,
    )
    if junit is not None:
        verification.write_junit(verified, junit)
    raise typer.Exit(verification.exit_code(verified.cells))


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
        list[str] | None,
        typer.Argument(metavar="[NAME=]RUN...|CAMPAIGN...", help="Runs, or campaigns, that were made before."),
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
    """Puts systems, settings or stored runs of one scenario, or campaigns, side by side, and says what differs."""
    if bool(stored) == bool(scenario):
        raise UsageError("give runs to compare, or --scenario with --system or --variant twice")
    from harness.cli import comparison_runs

    if campaigns := comparison_runs.campaigns_of(stored or (), runs):
        unfit: list[HarnessError] = []
        place, headline = comparison_runs.compare_campaigns(campaigns, runs=runs, out=out, unfit=unfit)
        terminal.say(headline)
        terminal.say(f"Page: {place}")
        raise typer.Exit(exit_for(unfit))
    if stored:
        found = [comparison_runs.stored_run(each, lambda name: run_folder(name, runs)) for each in stored]
        page, summary = comparison_runs.compare_stored(found, runs=runs, out=out, master=master, tell=terminal.say)
    else:
        page, summary = comparison_runs.compare_scenario(
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
    raise typer.Exit(presentation.print_comparison(terminal, page, summary))


@app.command()
def cluster(
    brokers: Annotated[int, typer.Option(min=1, max=9, help="How many.")] = 3,
    ready_file: Annotated[
        Path | None,
        typer.Option(
            callback=can_be_written, help="Gets addresses, nodes, processes and folders as JSON once it is ready."
        ),
    ] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A broker setting.")] = None,
    system: SystemOption = None,
    kafka_home: KafkaHomeOption = None,
    control: Annotated[
        Path | None, typer.Option(metavar="SOCKET", help="Commanded over this Unix socket: docs/control.md.")
    ] = None,
    until_stdin_closes: Annotated[
        bool, typer.Option("--until-stdin-closes", help="Ends when its standard input does: its starter has gone.")
    ] = False,
    starters_folder: Annotated[Path | None, typer.Option(hidden=True)] = None,
    runs: RunsOption = RUNS,
) -> None:
    """Runs a cluster alone, in the foreground, until Ctrl-C, and says when a node has ended."""

    def ready(facts: dict[str, Any]) -> None:
        ready_writer.write(facts)
        for name in ("bootstrap", "coordination", *(("control",) if "control" in facts else ())):
            terminal.say(f"{name:<14}{facts[name]}")
        for node in facts.get("nodes", ()):
            terminal.say(f"{node['name']:<22}process {node['process']}, {node['address']}, log {node['log']}")
        terminal.say("Ctrl-C ends it and leaves nothing.")

    named = system_named(system, kafka_home) or "reference"
    spec = ClusterSpec(brokers=tuple(range(1, brokers + 1)), settings=_settings(overrides or []), system=named)
    said = f"--kafka-home {kafka_home}" if kafka_home is not None else f"--system {system}"
    asked_for = Places(overridden={OverriddenKey(section="cluster", key="system"): said})
    looking.refuse(targets.problems(spec, asked_for, checks=False))
    commanded = _control(control, runs, spec, until_stdin_closes=until_stdin_closes)
    with serving.starters(starters_folder), ReadyFile(ready_file) as ready_writer:
        serving.run_cluster(spec, ready=ready, tell=terminal.say, control=commanded)


def _control(path: Path | None, runs: Path, spec: ClusterSpec, *, until_stdin_closes: bool) -> Control | None:
    if path is None:
        if until_stdin_closes:
            raise UsageError("--until-stdin-closes goes with --control")
        return None
    if spec.is_foreign:
        raise UsageError(f"--control: {spec.system} is somebody else's; give --system reference or kafka:VERSION")
    command = shlex.join([PROGRAM, *sys.argv[1:]])
    return Control(path, runs=runs, command=command, until_stdin_closes=until_stdin_closes)


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
    """Ends what runs left behind whose harness is gone. Every other command does so too, before it starts anything."""
    # main() has done it by now, and said what it ended and what it could not.
    if left_behind.is_anything_left():
        raise HarnessError("something is left behind that cannot be removed or undone now: see above, or sweep again")
    terminal.say("Nothing is left behind.")


@app.command()
def doctor() -> None:
    """Says what this machine has, what is missing, and what that means."""
    raise typer.Exit(presentation.print_health(terminal, machine.health()))


@app.command(hidden=True)
def worker(spec: str) -> None:
    """One client process of a workload."""
    client_process.work(spec)


_NEED_NO_SWEEP = ("worker", "--help", "--version")
# Go on where no sweep can be.
_LEAVE_NOTHING = (
    "check",
    "conform",
    "doctor",
    "export",
    "fetch-kafka",
    "list",
    "report",
    "results",
    "serve",
    "show",
    "trends",
)


def main() -> None:
    """The entry point: sweeps, obeys, and ends as exits.py says."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # for as long as we live
    exits.quiet_gateway()
    try:
        with _swept(sys.argv[1:]):
            answer: Any = app(standalone_mode=False, prog_name=PROGRAM)
            code = answer if isinstance(answer, int) else 0
    except BaseException as error:  # noqa: BLE001  # the last one, which reports it
        code = exits.code_for(error)
    sys.exit(exits.finished(code))


@contextlib.contextmanager
def _swept(arguments: Sequence[str]) -> Iterator[None]:
    """Sweeps before what starts something, and beside what only looks at what there is: nobody waits for its answer
    because somebody else's run was killed."""
    if not arguments or arguments[0] in _NEED_NO_SWEEP or COMPLETING in os.environ:
        yield
    elif arguments[0] not in _LEAVE_NOTHING:
        _tell_swept(left_behind.sweep(tries_again=arguments[0] == sweep.__name__))
        yield
    else:
        with ThreadPoolExecutor(1, thread_name_prefix="sweep") as beside:
            sweeping = beside.submit(left_behind.sweep)
            try:
                yield
            finally:
                try:
                    _tell_swept(sweeping.result())
                except HarnessError as error:
                    aside.say(f"not swept: {error}")


def _tell_swept(removed: Sequence[str]) -> None:
    for line in removed:
        aside.say(f"swept: {line}")
