"""The commands that need no cluster: they judge, export and show stored runs, ours or Jepsen's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from harness import compose
from harness.campaign.accepted import read_accepted
from harness.checks.judged import Judged, NotJudged
from harness.cli import check_many, exits, listing, presentation
from harness.cli.options import (
    MASTER,
    MEMORY,
    RUNS,
    AcceptedOption,
    MasterIfGiven,
    MemoryOption,
    RunArgument,
    RunsOption,
    aside,
    can_be_written,
    run_folder,
    run_folders,
    terminal,
)
from harness.errors import HarnessError, UsageError
from harness.verdict import exit_code_of

PathsArgument = Annotated[
    list[str],
    typer.Argument(metavar="PATH...", help="Run folders, their names below --runs, or folders of them; .edn files."),
]
FormatOption = Annotated[str, typer.Option("--format", help="Whose histories: ours, or jepsen (.edn files).")]
OURS, JEPSEN = "ours", "jepsen"


def check(
    paths: PathsArgument,
    runs: RunsOption = RUNS,
    master: MasterIfGiven = None,
    memory_mb: MemoryOption = MEMORY,
    pages: Annotated[
        bool | None, typer.Option("--pages/--no-pages", help="Whether pages are written; if not said, up to 20 are.")
    ] = None,
    accepted: AcceptedOption = None,
    kind: FormatOption = OURS,
    as_json: Annotated[bool, typer.Option("--json", help="Jepsen's: one JSON object a history, nothing else.")] = False,
    ww_deps: Annotated[
        bool, typer.Option("--ww-deps", help="Jepsen's: the order of writes is part of the cycle search.")
    ] = False,
    sub_via: Annotated[
        str | None, typer.Option("--sub-via", help="Jepsen's: consumers' partitions by assign or subscribe.")
    ] = None,
    compatible: Annotated[
        bool, typer.Option("--jepsen-compatible", help="Jepsen's: its own answer even where it is wrong.")
    ] = False,
) -> None:
    """Judges stored runs again, from their folders alone, and writes their pages; or judges Jepsen's histories."""
    _check_format(kind)
    with exits.interrupted_at_once("nothing of what is judged has changed; the same command judges it"):
        code = _check(
            paths,
            runs,
            master=master,
            pages=pages,
            accepted=accepted,
            kind=kind,
            as_json=as_json,
            ww_deps=ww_deps,
            sub_via=sub_via,
            compatible=compatible,
        )
    raise typer.Exit(code)


def _check(
    paths: list[str],
    runs: Path,
    *,
    master: str | None,
    pages: bool | None,
    accepted: Path | None,
    kind: str,
    as_json: bool,
    ww_deps: bool,
    sub_via: str | None,
    compatible: bool,
) -> int:
    """The exit code of the worst verdict."""
    if kind == JEPSEN:
        _refuse_given(
            {
                "--master": master is not None,
                "--pages": pages is not None,
                "--accepted": accepted is not None,
                "--runs": runs != RUNS,
            },
            "is for runs of ours; Jepsen's histories are judged without Spark, and have no pages: leave it out",
        )
        via = sub_via or check_many.SUB_VIA[0]
        answers = check_many.check_jepsen(
            [Path(path) for path in paths], ww_deps=ww_deps, sub_via=via, compatible=compatible, tell=aside.say
        )
        match answers:
            case [NotJudged(error=error)]:
                raise error
        for answer in answers:
            for line in [check_many.answer_json(answer)] if as_json else check_many.answer_summary(answer):
                terminal.say(line)
        return check_many.worst_of_histories(answers)
    _refuse_given(
        {"--json": as_json, "--ww-deps": ww_deps, "--sub-via": bool(sub_via), "--jepsen-compatible": compatible},
        "is for Jepsen's histories; add --format jepsen",
    )
    folders = run_folders(paths, runs)
    known = None if accepted is None else read_accepted(accepted)
    with check_many.check_runs(folders, master=master or MASTER, pages=pages, tell=aside.say, accepted=known) as judged:
        match judged:
            case [Judged() as alone]:
                presentation.print_outcome(terminal, alone)
            case [NotJudged(error=error)]:
                raise error
            case _:
                for each in judged:
                    terminal.say(check_many.verdict_line(each))
    return exit_code_of({each.verdict for each in judged})


def _refuse_given(options: Mapping[str, bool], why: str) -> None:
    """options: whether each was given."""
    for option, given in options.items():
        if given:
            raise UsageError(f"{option} {why}")


def export(
    run: RunArgument,
    kind: Annotated[str, typer.Option("--format", help="Whose notation: jepsen.")] = JEPSEN,
    output: Annotated[
        Path | None, typer.Option("--output", callback=can_be_written, help="The file; RUN/jepsen.edn if not given.")
    ] = None,
    runs: RunsOption = RUNS,
    memory_mb: MemoryOption = MEMORY,
) -> None:
    """Writes a run's history in the notation of Jepsen, for its Kafka checker or for ours."""
    if kind != JEPSEN:
        raise UsageError(f"--format {kind}: runs are exported to: {JEPSEN}")
    path, lines = check_many.export_jepsen(run_folder(run, runs), output)
    terminal.say(f"{path}: {lines} lines")


def _check_format(kind: str) -> None:
    if kind not in (OURS, JEPSEN):
        raise UsageError(f"--format {kind}: histories are read in: {OURS}, {JEPSEN}")


def report(run: RunArgument, runs: RunsOption = RUNS, memory_mb: MemoryOption = MEMORY) -> None:
    """Writes the page of a judged run again."""
    page, error = compose.render(run_folder(run, runs))
    if page is None:
        raise HarnessError(error)
    terminal.say(page)


def show(
    run: RunArgument,
    finding: Annotated[str | None, typer.Argument(metavar="FINDING", help="For example F1.")] = None,
    runs: RunsOption = RUNS,
    everything: Annotated[bool, typer.Option("--all", help="Every row of the proof, however many.")] = False,
    memory_mb: MemoryOption = MEMORY,
) -> None:
    """Prints a run's findings, or one of them with its proof."""
    presentation.print_findings(terminal, run_folder(run, runs), finding, everything=everything)


def list_runs(
    runs: RunsOption = RUNS, as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False
) -> None:
    """Lists the runs, newest first."""
    listing.print_runs(terminal, aside, runs, as_json=as_json)


def add_to(app: typer.Typer) -> None:
    for command in (check, export, report, show):
        app.command()(command)
    app.command("list")(list_runs)
