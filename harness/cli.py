"""The command line: parses, calls compose, prints, and exits by verdict. Errors of users and machines are one line."""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from harness import compose, presentation, verification
from harness.errors import HarnessError, UsageError
from harness.scenario_file import load, shipped_names
from harness.verdict import Verdict

USAGE_ERROR = 2

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Under crashes, partitions and disk loss, did this Kafka-like system keep its promises?",
)
console = Console(highlight=False, soft_wrap=True)

RunsOption = Annotated[Path, typer.Option("--runs", help="Where run folders are.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run folder, its name below --runs, or 'latest'.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Changes one thing of it.")]
SeedOption = Annotated[int | None, typer.Option(help="The seed of everything drawn by chance.")]
MasterOption = Annotated[str, typer.Option(help="Where the checks run: local[N], or a Spark cluster's URL.")]
RUNS = Path("runs")
MASTER = "local[2]"


def run_folder(reference: str, runs: Path) -> Path:
    """A path, or the name of a run below `runs`."""
    for path in (Path(reference), runs / reference):
        if (path / "run.json").is_file():
            return path.resolve()
    raise UsageError(f"{reference}: no run folder, and none of that name in {runs}; `kafka-chaos list` shows the runs")


@app.command()
def run(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO|FILE.toml|RUN", help="What to run.")],
    runs: RunsOption = RUNS,
    seed: SeedOption = None,
    overrides: SetOption = None,
    master: MasterOption = MASTER,
) -> None:
    """Runs a scenario, judges it and writes its page; the exit code is the verdict's."""
    reference = scenario
    if not scenario.endswith(".toml") and (runs / scenario / "run.json").is_file():
        reference = str(runs / scenario)
    began = time.monotonic()
    with presentation.Live(console, master=master) as live:
        folder, outcome = compose.run_scenario(
            reference,
            runs=runs,
            seed=seed,
            overrides=overrides or [],
            command=["kafka-chaos", *sys.argv[1:]],
            progress=live.show,
            on_healed=live.healed,
        )
    ended = time.monotonic()
    bench = live.bench or compose.Bench(master=master)
    try:
        judged = bench.judge(folder.path)
    finally:
        bench.close()
    if outcome.error:
        console.print(f"The run could not be done: {outcome.error}")
    presentation.print_outcome(console, judged)
    console.print(f"[dim]run {ended - began:.1f} s, verdict {time.monotonic() - ended:.1f} s after it ended[/dim]")
    raise typer.Exit(judged.judgement.exit_code)


@app.command()
def check(run: RunArgument, runs: RunsOption = RUNS, master: MasterOption = MASTER) -> None:
    """Judges a stored run again, from its folder alone, and writes its page."""
    folder = run_folder(run, runs)
    bench = compose.Bench(master=master)
    try:
        judged = bench.judge(folder)
    finally:
        bench.close()
    presentation.print_outcome(console, judged)
    raise typer.Exit(judged.judgement.exit_code)


@app.command()
def report(run: RunArgument, runs: RunsOption = RUNS) -> None:
    """Writes the page of a judged run again."""
    page, error = compose.render(run_folder(run, runs))
    if page is None:
        raise HarnessError(error)
    console.print(str(page))


@app.command()
def show(
    run: RunArgument,
    finding: Annotated[str | None, typer.Argument(metavar="FINDING", help="For example F1.")] = None,
    runs: RunsOption = RUNS,
) -> None:
    """Prints a run's findings, or one of them with every record it is about."""
    presentation.print_findings(console, run_folder(run, runs), finding)


@app.command("list")
def list_runs(
    runs: RunsOption = RUNS, as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False
) -> None:
    """Lists the runs, newest first."""
    presentation.print_runs(console, runs, as_json=as_json)


@app.command()
def scenarios(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these.")] = None,
    only_names: Annotated[bool, typer.Option("--names", help="Names alone, one a line.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Run them; exit 0 only if every outcome is as stated.")
    ] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 1,
    runs: RunsOption = RUNS,
    seed: SeedOption = None,
    junit: Annotated[Path | None, typer.Option(help="Where to write JUnit XML.")] = None,
    master: MasterOption = MASTER,
) -> None:
    """Lists the shipped scenarios, or runs them and holds each against its stated outcome."""
    chosen = names or shipped_names()
    if not verify:
        for name in chosen:
            console.print(name if only_names else f"[bold]{name}[/bold]\n  {load(name).story}", markup=not only_names)
        return
    table = verification.verify(
        chosen, repeat=repeat, runs=runs, seed=seed, master=master, tell=lambda line: console.print(line, markup=False)
    )
    if junit is not None:
        verification.write_junit(table, junit)
    raise typer.Exit(0 if all(cell.as_stated for cell in table) else 1)


@app.command()
def cluster(
    brokers: Annotated[int, typer.Option(min=1, max=9, help="How many.")] = 3,
    ready_file: Annotated[
        Path | None, typer.Option(help="Gets the addresses as JSON once the cluster is ready.")
    ] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A broker setting.")] = None,
) -> None:
    """Runs a reference cluster alone, in the foreground, until Ctrl-C."""

    def ready(addresses: dict[str, str]) -> None:
        if ready_file is not None:
            unfinished = ready_file.with_name(ready_file.name + ".unfinished")
            unfinished.write_text(json.dumps(addresses), encoding="utf-8")
            unfinished.replace(ready_file)
        console.print(f"bootstrap     {addresses['bootstrap']}\ncoordination  {addresses['coordination']}")
        console.print("Ctrl-C ends it and leaves nothing.")

    compose.run_cluster(brokers=brokers, settings=_settings(overrides or []), ready=ready)


def _settings(overrides: Sequence[str]) -> dict[str, str]:
    settings = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise UsageError(f"--set {override}: write KEY=VALUE, for example min.insync.replicas=2")
        settings[key.strip()] = value.strip()
    return settings


@app.command()
def sweep() -> None:
    """Ends what runs left behind whose harness is gone. Every other command does so too, first."""
    # main() has done it by now, and said what it ended.
    console.print("Nothing is left behind.")


@app.command()
def doctor() -> None:
    """Says what this machine has, what is missing, and what that means."""
    raise typer.Exit(presentation.print_health(console, compose.health()))


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
                Console(stderr=True, highlight=False).print(f"swept: {told}", markup=False)
        code: Any = app(standalone_mode=False)
    except UsageError as error:
        sys.exit(_fail(str(error), USAGE_ERROR))
    except HarnessError as error:
        sys.exit(_fail(str(error), Verdict.ERROR.exit_code))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        # Typer's own usage errors show themselves in its way; anything else is a bug of ours and keeps its traceback.
        if not hasattr(error, "exit_code") or not hasattr(error, "format_message"):
            raise
        sys.exit(_fail(error.format_message(), int(error.exit_code)))
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"kafka-chaos: {message}\n")
    return code
