"""Exit codes are a promise: 1 is a violation and nothing else, and whatever is wrong is a line, never a traceback."""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import compose
from harness.cli import exits, verification
from harness.cli import main as cli
from harness.cli.terminal import Terminal
from harness.controller.recorder import Recorder
from harness.errors import INTERRUPTED, HarnessError, Problem, Problems, UsageError
from harness.history.journals.journal import JournalFile
from harness.host.clock import SystemClock
from harness.ports.cluster import TopicPartition
from tests.reports.stories.crash_story import crash_run
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]
TOPIC = '[[topics]]\nname = "orders"\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the uses below name; state and cache of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    here = tmp_path / "here"
    (here / "folder").mkdir(parents=True)
    (here / "folder.toml").mkdir()
    files = {
        "good.toml": TOPIC,
        "broken.toml": "[[topics]\n",
        "empty.toml": "",
        "late.toml": f'{TOPIC}[workload]\nduration = "5 s"\n[[faults]]\nkind = "crash"\nat = "9 s"\n',
        "names.toml": f'{TOPIC}[[faults]]\nkind = "crash"\nat = "1 s"\ntarget = "leader(order/0)"\n',
        "heal.toml": f'{TOPIC}[workload]\nname = "none"\n[[steps]]\nact = {{ heal = "all" }}\n',
        "two.toml": f"{TOPIC}replication_factor = 9\n[workload]\nacsk = 1\n",
        "brackets.toml": '[workload]\nacks = "all"\n',
        "odd.toml": '[[topics]]\nname = "\\u202eevil\\u0007"\n',
        "list.edn": "(1 2",
        "night.toml": '[[matrix]]\nseeds = [1]\nscenarios = ["no-faults", "leader-crush"]\n',
    }
    for name, text in files.items():
        (here / name).write_text(text, encoding="utf-8")
    (here / "latin.toml").write_bytes(b'# caf\xe9\n[[topics]]\nname = "t"\n')
    (here / "bad-run").mkdir()
    (here / "bad-run" / "run.json").write_text("{")
    monkeypatch.chdir(here)
    return here


@pytest.fixture
def use(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kafka-chaos", *arguments])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        printed = capsys.readouterr()
        assert isinstance(exit_.value.code, int)
        return exit_.value.code, printed.out, printed.err

    return run


Use = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    ("line", "code", "expected"),
    [
        ("explode", 2, "No such command 'explode'"),
        ("run", 2, "Missing argument"),
        ("run good.toml --colour", 2, "No such option: --colour"),
        ("run nowhere.toml", 2, "nowhere.toml: no such file"),
        ("run /etc/passwd", 2, "/etc/passwd: no scenario; the name of a scenario's file ends in .toml"),
        ("run unclean-electoin", 2, "did you mean 'unclean-election'?"),
        ("run latin.toml", 2, "latin.toml: byte 5 is no UTF-8"),
        ("run broken.toml", 2, "broken.toml: not TOML that can be read"),
        ("run empty.toml", 2, "empty.toml:1: a scenario needs at least one [[topics]]"),
        ("run brackets.toml", 2, "a scenario needs at least one [[topics]]"),
        ("run odd.toml", 2, r"odd.toml:2: topic '\u202eevil\x07': no name of a topic"),
        ("run folder", 2, "folder: no run folder (it has no scenario.toml)"),
        ("run folder.toml", 2, "folder.toml: no run folder"),
        ("run late.toml", 2, "late.toml:7: fault 'crash': at 9 s the load is over"),
        ("run names.toml", 2, "names.toml:6: fault 'crash': target 'leader(order/0)': there is no topic 'order'"),
        ("run heal.toml", 2, "heal.toml:6: step 1, 'heal all': nothing is cut"),
        ("run good.toml --set workload.acks=7", 2, "--set workload.acks=7: acks: acks is"),
        ("run good.toml --set topics.orders.replication_factor=4", 2, "4 replicas on 3 brokers"),
        ("run good.toml --set x", 2, "--set x: write KEY=VALUE"),
        ("run good.toml --system redis", 2, "--system redis: unknown system 'redis'"),
        ("run good.toml --system kafka:4.3.1", 2, "Kafka 4.3.1 is not on this machine; fetch it once"),
        ("run good.toml --world moon", 2, "--world moon: unknown world 'moon'"),
        ("run good.toml --client franz", 2, "--client franz: unknown client 'franz'"),
        ("run good.toml --bootstrap nowhere", 2, "--bootstrap nowhere: bootstrap: 'nowhere' is no address"),
        ("run good.toml --bootstrap 127.0.0.1:1", 2, "nobody listens there (127.0.0.1:1 Connection refused)"),
        ("run good.toml --attached folder", 2, "folder: Is a directory"),
        ("run good.toml --attached latin.toml", 2, "--attached latin.toml: not TOML"),
        ("run good.toml --attached good.toml", 2, "write one table, [attached]"),
        ("run good.toml --kafka-home folder", 2, "is no Kafka distribution"),
        ("run good.toml --master moon", 2, "--master moon: write local[2]"),
        ("run good.toml --memory-mb 1", 2, "--memory-mb"),
        ("run good.toml --seed 99999999999999999999", 2, "--seed"),
        ("run good.toml --runs good.toml", 4, "good.toml: no run folder can be made there: File exists"),
        ("run good.toml --runs /proc/none", 4, "/proc/none: no run folder can be made there"),
        ("run bad-run", 2, "bad-run: no run folder (it has no scenario.toml)"),
        ("list --runs good.toml", 2, "--runs good.toml: this is no folder"),
        ("show nothing", 2, "nothing: no run folder"),
        ("show bad-run", 4, "run.json: line 1 is no JSON"),
        ("report bad-run", 4, "run.json: line 1 is no JSON"),
        ("export bad-run", 4, "run.json: line 1 is no JSON"),
        ("check good.toml", 2, "good.toml: no run folder"),
        ("check --format jepsen nothing.edn", 2, "nothing.edn: no such file or folder"),
        ("check --format xml bad-run", 2, "--format xml"),
        ("compare", 2, "give runs to compare, or --scenario"),
        ("compare --scenario no-faults --system reference --system kafka:9", 2, "--system kafka:9: Kafka '9' is not"),
        ("cluster --system kafka:3.9.1", 2, "--system kafka:3.9.1: Kafka 3.9.1 is not on this machine"),
        ("cluster --ready-file none/ready.json", 2, "--ready-file none/ready.json: there is no folder"),
        ("fetch-kafka 9.9", 2, "Kafka '9.9' is not known"),
        ("scenarios --verify good.toml --system kafka:4.3.1", 2, "fetch-kafka 4.3.1"),
        ("scenarios --verify no-faults --junit none/j.xml", 2, "--junit none/j.xml: there is no folder"),
        ("campaign nothing.toml", 2, "nothing.toml: no such campaign file"),
        ("campaign latin.toml", 2, "latin.toml: byte 5 is no UTF-8"),
        ("campaign broken.toml", 2, "broken.toml: not TOML that can be read"),
        ("campaign night.toml", 2, "night.toml:3: unknown scenario 'leader-crush'"),
        ("campaign --random 2 --accepted latin.toml", 2, "latin.toml: byte 5 is no UTF-8"),
        ("campaign --random 2 --junit none/j.xml", 2, "--junit none/j.xml: there is no folder"),
        ("campaign --random 2 --summary folder", 2, "--summary folder: that is a folder; name a file"),
        ("nightly --junit none/j.xml", 2, "--junit none/j.xml: there is no folder"),
        ("conform", 2, "Missing argument"),
        ("conform nowhere", 2, "BOOTSTRAP: 'nowhere' is no address"),
        ("conform ,", 2, "BOOTSTRAP: name an address"),
        ("conform 127.0.0.1:1 --row prodice", 2, "--row prodice: no such row; did you mean 'produce'?"),
        ("conform 127.0.0.1:1 --junit none/j.xml", 2, "--junit none/j.xml: there is no folder"),
        ("conform 127.0.0.1:1", 4, "no broker answers at the bootstrap addresses"),
        ("results none --summary none/s.md", 2, "--summary none/s.md: there is no folder"),
    ],
)
def test_a_use_that_cannot_be_ends_with_one_line_and_its_code(use: Use, line: str, code: int, expected: str) -> None:
    ended, out, error = use(*line.split())

    assert (ended, out, error.count("\n")) == (code, "", 1), error
    assert error.startswith("kafka-chaos: ")
    assert expected in error
    assert "Traceback" not in error
    assert not Path("runs").exists()  # nothing was begun, and `latest` leads where it led


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--version", "kafka-chaos 0."),
        ("run good.toml --preflight", "good: nothing is known against it (reference, local)"),
        ("scenarios --names", "no-faults\n"),
    ],
)
def test_a_use_that_asks_something_is_answered(use: Use, line: str, expected: str) -> None:
    ended, out, error = use(*line.split())

    assert (ended, error) == (0, "")
    assert expected in out


def test_all_that_is_wrong_has_a_line_each(use: Use) -> None:
    code, _, error = use("run", "two.toml", "--set", "word=1", "--preflight")

    assert code == 2
    assert [line.partition(": ")[2].partition(": ")[0] for line in error.splitlines()] == [
        "--set word=1",
        "two.toml:5",
        "2 problems; nothing was started",
    ]


def test_without_anything_to_do_the_help_is_shown(use: Use) -> None:
    code, out, error = use()

    assert (code, error) == (2, "")
    assert "Usage: kafka-chaos" in out.splitlines()[0]


@pytest.mark.parametrize(
    ("error", "code", "expected"),
    [
        (UsageError("yours"), 2, "yours"),
        (Problems([Problem(what="a", remedy="b")]), 2, "a; b"),
        (HarnessError("the machine's"), 4, "the machine's"),
        (OSError(errno.ENOSPC, "No space left on device"), 4, "No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), 4, "/x: Permission denied"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "/x"), 2, "/x: Is a directory"),
        (ExceptionGroup("several", [ValueError("b"), HarnessError("ours")]), 4, "ours"),
        (MemoryError(), 4, "this machine's memory is not enough"),
        (ZeroDivisionError("x"), 4, "unforeseen, and a bug of kafka-chaos: ZeroDivisionError: x; details: "),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 4, "unforeseen, and a bug of kafka-chaos: BrokenPipeError"),
    ],
)
@pytest.mark.usefixtures("here")
def test_every_error_is_a_line_and_none_is_a_violation(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, expected: str
) -> None:
    assert exits.code_for(error) == code
    line = capsys.readouterr().err
    assert line.startswith(f"kafka-chaos: {expected}")
    assert line.count("\n") == 1


def test_who_stops_a_command_gets_130_and_no_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.code_for(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == ""


def a_cell(seen: str, *, stated: str = "pass", as_stated: bool = False, has_page: bool = True) -> verification.Cell:
    return verification.Cell(
        scenario="s",
        number=1,
        seed=1,
        folder="",
        stated=stated,
        seen=seen,
        as_stated=as_stated,
        duration_s=1.0,
        note="",
        has_page=has_page,
    )


@pytest.mark.parametrize(
    ("cells", "code"),
    [
        ([a_cell("violation", stated="violation", as_stated=True), a_cell("pass", as_stated=True)], 0),
        ([a_cell("violation"), a_cell("error")], 1),
        ([a_cell("error"), a_cell("inconclusive")], 4),
        ([a_cell("pass", stated="violation")], 3),
        ([a_cell("vacuous")], 3),
        ([a_cell("violation", stated="violation")], 3),  # the findings are others than stated
        ([a_cell("pass", has_page=False)], 4),
        ([], 3),  # nothing was run
    ],
)
def test_held_against_what_is_stated_only_an_unstated_violation_is_1(cells: list[verification.Cell], code: int) -> None:
    assert verification.exit_code(cells) == code


# -- runs that others look at -----------------------------


def test_one_damaged_folder_costs_the_list_only_its_own_line(
    use: Use, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    good = crash_run(here / "runs").name
    (here / "runs" / "20250101-000000-broken").mkdir()
    (here / "runs" / "20250101-000000-broken" / "run.json").write_text('{"anchors": 3}')

    code, out, error = use("list")
    assert (code, len(out.splitlines()), error.count("\n")) == (0, 3, 1)
    assert "20250101-000000-broken" in error
    assert good in out
    assert all(len(line) <= 80 for line in out.splitlines())

    rows = [json.loads(line) for line in use("list", "--json")[1].splitlines()]
    assert {row["id"]: bool(row["error"]) for row in rows} == {good: False, "20250101-000000-broken": True}
    assert {"time", "system", "world", "verdict"} <= rows[0].keys()


@pytest.mark.parametrize("name", ["verdict.json", "tables/findings.parquet", "tables/faults.parquet", "run.json"])
@pytest.mark.parametrize("content", [b"\x00\xff garbage \x1b[2J", b"", b"null"])
def test_a_damaged_file_is_one_line(use: Use, here: Path, name: str, content: bytes) -> None:
    run = crash_run(here / "runs")
    (run / name).write_bytes(content)

    for arguments in (("show", run.name), ("show", run.name, "F1"), ("report", run.name)):
        code, _, error = use(*arguments)
        assert code in (0, 2, 4)
        assert error.count("\n") == (1 if code else 0)
        assert "unforeseen" not in error


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), ValueError("no such journal")])
def test_what_cannot_even_be_sealed_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(path: Path) -> None:
        raise error

    monkeypatch.setattr(compose, "sealed", fails)

    reported = compose._unfit(tmp_path, None)

    assert isinstance(reported, HarnessError)
    assert str(reported).startswith(f"{tmp_path}: ")


# -- disks that are full, readers that leave --------------


class _Full:
    """A file that takes so many bytes and no more."""

    closed = False

    def __init__(self, room: int) -> None:
        self.room = room
        self.taken: list[bytes] = []

    def write(self, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        part = data[: self.room]
        self.room -= len(part)
        self.taken.append(part)
        return len(part)

    def close(self) -> None:
        self.closed = True


def test_after_a_line_that_a_full_disk_has_torn_the_controller_writes_nothing(tmp_path: Path) -> None:
    recorder = Recorder(folder=tmp_path, clock=SystemClock())
    full = _Full(room=100)
    recorder._file = full  # type: ignore[assignment]
    row = {"time_ns": 1, "node": 2}
    recorder.write("controller_seen", row)
    with pytest.raises(HarnessError, match=r"controller\.jsonl cannot be written: the disk is full"):
        recorder.write("controller_seen", row)
    full.room = 10_000  # somebody made room
    with pytest.raises(HarnessError, match="cannot be written"):
        recorder.write("controller_seen", row)
    assert b"".join(full.taken).count(b"\n") == 1


def test_a_worker_whose_disk_is_full_leaves_its_torn_line_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = JournalFile(tmp_path / "p1.jsonl", clock=SystemClock(), worker="p1")
    before = (tmp_path / "p1.jsonl").read_bytes()
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:5]))
    with pytest.raises(OSError, match="No space left on device"):
        journal.assigned([TopicPartition(topic="t", partition=0)])
    monkeypatch.setattr(os, "write", real)
    journal.close()
    assert len((tmp_path / "p1.jsonl").read_bytes()) == len(before) + 5


def test_who_reads_no_further_ends_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        terminal = Terminal()
        terminal.say("one")
        terminal.say("two")
        assert terminal.lost == ""


COMMAND = [sys.executable, "-m", "harness"]


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("shell", "code"),
    [
        ('"$@" scenarios | head -1', 0),
        ('"$@" --help | head -1', 0),
        ('"$@" scenarios > /dev/full', 4),
        ('"$@" scenarios --names >&-', 0),
        ('"$@" run nothing 2>&-', 2),
    ],
)
@pytest.mark.usefixtures("here")
def test_output_that_nobody_takes_is_no_violation(shell: str, code: int) -> None:
    ended = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {shell}", "bash", *COMMAND],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr


@pytest.mark.usefixtures("here")
def test_a_home_that_cannot_be_used_is_reported_and_costs_no_command_that_only_looks(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/proc/none")

    code, _, error = use("run", "good.toml")
    assert (code, error.count("\n")) == (4, 1)
    assert "XDG_STATE_HOME chooses another" in error
    assert use("list")[0] == 0


JUDGING = """
import time
from harness.cli import exits
with exits.interrupted_at_once("the run is kept; `kafka-chaos check RUN` judges it"):
    print("begun", flush=True)
    time.sleep(600)
"""
BEFORE_JUDGING = """
import asyncio, time
from harness.compose import catch_signals
async def run():
    catch_signals(asyncio.get_running_loop(), asyncio.Event(), remedy="what was recorded is kept")
asyncio.run(run())
print("begun", flush=True)
time.sleep(600)
"""
INTERRUPTED_ALREADY = """
import asyncio, time
from harness.compose import catch_signals
async def run():
    interrupt = asyncio.Event()
    catch_signals(asyncio.get_running_loop(), interrupt, remedy="what was recorded is kept")
    interrupt.set()
    print("begun", flush=True)
    time.sleep(600)
asyncio.run(run())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("script", "line"),
    [
        (JUDGING, "interrupted while judging: the run is kept; `kafka-chaos check RUN` judges it"),
        (BEFORE_JUDGING, "interrupted: what was recorded is kept"),
        (INTERRUPTED_ALREADY, "interrupted: what was recorded is kept"),
    ],
    ids=["while-judging", "between-run-and-judging", "for-the-second-time"],
)
def test_what_ends_at_once_for_a_signal_says_so_in_one_line_with_the_remedy(
    script: str, line: str, number: signal.Signals
) -> None:
    begun = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert begun.stdout is not None
        assert begun.stdout.readline() == "begun\n"
        begun.send_signal(number)
        _, said = begun.communicate(timeout=PATIENCE_S)
    finally:
        begun.kill()
        begun.wait()

    assert begun.returncode == INTERRUPTED
    assert said == f"kafka-chaos: {line}\n"


def test_what_answered_signals_before_answers_them_again_once_it_is_judged() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with exits.interrupted_at_once("..."):
        assert signal.getsignal(signal.SIGINT) is signal.getsignal(signal.SIGTERM)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
