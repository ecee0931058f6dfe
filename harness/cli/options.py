"""Options that several commands share, and functions that find what they name."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness import compose
from harness.cli.terminal import Terminal
from harness.cluster.catalogue import WORLDS
from harness.errors import HarnessError, UsageError
from harness.history.run_folder import RunFolder
from harness.host import memory
from harness.scenario.file import seed_names, shipped_names
from harness.scenario.overrides import attached_overrides
from harness.scenario.places import Override
from harness.verdict import Verdict

RUNS = Path("runs")
MASTER = "local[2]"
MEMORY = memory.DEFAULT_MB

terminal = Terminal()
aside = Terminal(aside=True)

_MASTER = re.compile(r"local|local\[([1-9]\d*|\*)(,\s*\d+)?\]|local-cluster\[.+\]|yarn|(spark|k8s)://.+")


def _known_master(master: str | None) -> str | None:
    if master is not None and not _MASTER.fullmatch(master):
        raise UsageError(f"--master {master}: write local[2], or a Spark cluster's URL, for example spark://host:7077")
    return master


def can_be_written(option: typer.CallbackParam, path: Path | None) -> Path | None:
    """For a file that is written when all is done: what is known against it is reported before anything is."""
    if path is not None and not path.absolute().parent.is_dir():
        raise UsageError(f"{option.opts[0]} {path}: there is no folder {path.absolute().parent}")
    if path is not None and path.is_dir():
        raise UsageError(f"{option.opts[0]} {path}: that is a folder; name a file")
    return path


def exit_for(unfit: Sequence[HarnessError]) -> int:
    """Of a command that was done but for these, each a line: 0 where there are none."""
    for error in unfit:
        aside.say(f"kafka-chaos: left out: {error}")
    return Verdict.ERROR.exit_code if unfit else 0


def scenario_names(incomplete: str) -> list[str]:
    """For the shell's completion."""
    return [name for name in (*shipped_names(), *seed_names()) if name.startswith(incomplete)]


def run_names(incomplete: str) -> list[str]:
    """For the shell's completion: the runs in the default folder."""
    return sorted(path.parent.name for path in RUNS.glob("*/run.json") if path.parent.name.startswith(incomplete))


RunsOption = Annotated[Path, typer.Option("--runs", help="Where run folders are.")]
AcceptedOption = Annotated[
    Path | None, typer.Option("--accepted", help="Findings that are known and set aside: [[accepted]] tables.")
]
RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run folder, its name below --runs, or 'latest'.", autocompletion=run_names),
]
SetOption = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Changes one thing of it.")]
SeedOption = Annotated[
    int | None, typer.Option(min=-(2**63), max=2**63 - 1, help="The seed of everything drawn by chance.")
]
MasterOption = Annotated[
    str, typer.Option(callback=_known_master, help="Where the checks run: local[N], or a Spark cluster's URL.")
]
MasterIfGiven = Annotated[
    str | None,
    typer.Option(
        "--master",
        callback=_known_master,
        help="Where the checks run: local[N], or a Spark cluster's URL.",
        show_default=MASTER,
    ),
]
MemoryOption = Annotated[
    int,
    typer.Option(
        "--memory-mb",
        min=memory.LEAST_MB,
        callback=memory.allow,
        help="Memory for the checks' JVM, and as much for what is read beside it; tables that need more are refused.",
    ),
]
SystemOption = Annotated[
    str | None,
    typer.Option(help="The system under test: reference, kafka:4.3.1 (or shorter: kafka:4), attached, compose:FILE."),
]
BootstrapOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT,...", help="A cluster that is there already (system attached).")
]
AttachedOption = Annotated[
    Path | None,
    typer.Option("--attached", metavar="FILE.toml", help="How that cluster is harmed and healed: an [attached] table."),
]
WorldOption = Annotated[str | None, typer.Option(help=f"Where it runs: {', '.join(WORLDS)}.")]
KafkaHomeOption = Annotated[Path | None, typer.Option(help="An unpacked Kafka distribution, as the system under test.")]
ClientOption = Annotated[
    str | None, typer.Option(help=f"The client library of the load: {', '.join(compose.CLIENTS)}.")
]


def target(system: str | None, world: str | None, kafka_home: Path | None, client: str | None) -> list[Override]:
    """The options about the cluster and its clients, as overrides of the scenario. Raises UsageError."""
    named = f"--kafka-home {kafka_home}" if kafka_home is not None else f"--system {system}"
    chosen = (
        ("cluster.system", system_named(system, kafka_home), named),
        ("cluster.world", world, f"--world {world}"),
        ("workload.client", client, f"--client {client}"),
    )
    return [Override(f"{key}={value}", option) for key, value, option in chosen if value is not None]


def system_named(system: str | None, kafka_home: Path | None) -> str | None:
    """Raises UsageError."""
    if kafka_home is None:
        return system
    if system is not None:
        raise UsageError("--kafka-home names the system under test by itself; leave --system out")
    return f"kafka:{os.path.realpath(kafka_home)}"  # also works for a ring of links, which is refused later


def attachment(system: str | None, bootstrap: str | None, file: Path | None) -> list[Override]:
    """--bootstrap and --attached as overrides of the scenario. Raises UsageError."""
    overrides = attached_overrides(file) if file is not None else []
    if bootstrap is not None:
        overrides.append(Override(f"cluster.bootstrap={bootstrap}", f"--bootstrap {bootstrap}"))
    if system is None and (bootstrap is not None or file is not None):
        said = f"--bootstrap {bootstrap}" if bootstrap is not None else f"--attached {file}"
        overrides.insert(0, Override("cluster.system=attached", said))
    return overrides


_OF_JEPSEN = ("history.edn", "*/history.edn", "*/*/history.edn")  # its store, a test's folder, a test


def run_folder(reference: str, runs: Path) -> Path:
    """A path, or the name of a run below `runs`. Raises UsageError at once if it is not a run folder."""
    for path in (Path(reference), runs / reference):
        if os.path.lexists(path / "run.json"):
            return RunFolder(path).path
    if any(next(Path(reference).glob(pattern), None) for pattern in _OF_JEPSEN):
        raise UsageError(f"{reference}: no run folder, but histories of Jepsen: add --format jepsen")
    raise UsageError(f"{reference}: no run folder, and none of that name in {runs}; `kafka-chaos list` shows the runs")


def run_folders(references: list[str], runs: Path) -> list[Path]:
    """The named runs, and the runs in named folders, each once.

    An error in a run of a named folder affects only that run, and is reported when it is judged."""
    found: dict[Path, None] = {}
    for reference in references:
        inside = sorted(path.parent for path in Path(reference).glob("*/run.json") if not path.parent.is_symlink())
        if inside and not (Path(reference) / "run.json").is_file():
            found.update(dict.fromkeys(path.resolve() for path in inside))  # checked later, one by one
        else:
            found[run_folder(reference, runs)] = None
    return list(found)
