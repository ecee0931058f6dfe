"""Opens a file in headless Chromium and reads its own timings, over the DevTools pipe: no server, no driver."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
_FREE_FROM = 10
_TIMINGS = """(async () => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const drawn = performance.now(), entry = performance.getEntriesByType("navigation")[0];
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return JSON.stringify({ready_s: entry.domContentLoadedEventEnd / 1e3, load_s: entry.loadEventEnd / 1e3,
    painted_s: paint ? paint.startTime / 1e3 : drawn / 1e3, drawn_s: drawn / 1e3,
    elements: document.getElementsByTagName("*").length});
})()"""


def chromium() -> str | None:
    return next((found for found in map(shutil.which, NAMES) if found), None)


class Pipe:
    """Requests and events of the DevTools protocol, each a JSON text that ends in a NUL."""

    def __init__(self, to: IO[bytes], back: IO[bytes]) -> None:
        self._to, self._back, self._number, self._rest = to, back, 0, b""
        self._events: list[dict[str, Any]] = []

    def ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._number += 1
        request = {"id": self._number, "method": method, "params": params}
        request |= {"sessionId": session} if session else {}
        self._to.write(json.dumps(request).encode() + b"\0")
        self._to.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self._events.append(answer)

    def events(self, event: str) -> list[dict[str, Any]]:
        """What came with each of these events so far."""
        return [message["params"] for message in self._events if message.get("method") == event]

    def wait(self, event: str) -> None:
        while not any(message.get("method") == event for message in self._events):
            self._events.append(self._next())

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            got = os.read(self._back.fileno(), 1 << 16)
            if not got:
                raise RuntimeError("the browser ended")
            self._rest += got
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message


@contextmanager
def browser(program: str) -> Iterator[Pipe]:
    down, up = os.pipe(), os.pipe()
    # The browser reads requests from its descriptor 3 and answers on 4: bash puts the two pipes there, whatever the
    # numbers of their ends (other shells know one digit), as long as these are neither 3 nor 4.
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _FREE_FROM) for end in (down[0], up[1])]
    os.close(down[0])
    os.close(up[1])
    command = f'exec "$0" "$@" 3<&{ends[0]} 4>&{ends[1]}'
    with tempfile.TemporaryDirectory(prefix="chromium-") as profile:
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-pipe",
            "--no-first-run",
            f"--user-data-dir={profile}",
            "--window-size=1280,2000",
        ]
        process = subprocess.Popen(
            ["bash", "-c", command, program, *options], pass_fds=ends, stderr=subprocess.DEVNULL, start_new_session=True
        )
        for end in ends:
            os.close(end)
        try:
            with os.fdopen(down[1], "wb") as to, os.fdopen(up[0], "rb") as back:
                yield Pipe(to, back)
        finally:
            _end_all_of(process)


def _end_all_of(process: "subprocess.Popen[bytes]") -> None:
    """The browser's own children too: they write into its profile until they are gone."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for _ in range(500):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)


def timings(program: str, page: Path) -> dict[str, float]:
    """Seconds from the navigation on: DOM ready, load event, first paint, two frames drawn after load; and CPU."""
    with browser(program) as pipe:
        target = pipe.ask("Target.createTarget", url="about:blank")["targetId"]
        session = pipe.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        pipe.ask("Page.enable", session)
        pipe.ask("Performance.enable", session, timeDomain="threadTicks")
        pipe.ask("Page.navigate", session, url=page.resolve().as_uri())
        pipe.wait("Page.loadEventFired")
        answer = pipe.ask("Runtime.evaluate", session, expression=_TIMINGS, awaitPromise=True)
        found: dict[str, float] = json.loads(answer["result"]["value"])
        metrics = {row["name"]: row["value"] for row in pipe.ask("Performance.getMetrics", session)["metrics"]}
        # What the page's own thread computed: all of the time above on a machine that has nothing else to do.
        return found | {"cpu_s": metrics["TaskDuration"], "layout_cpu_s": metrics["LayoutDuration"]}
