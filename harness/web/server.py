"""Answers requests for lists, pages and live runs below one folder.

Only GET and HEAD; only files of the names and kinds below; no link in the folder is followed (files_below.py). A run's
own page may have been written by somebody else: it is shown in a frame of a page of ours, which it cannot leave, has an
origin of its own (`sandbox`), where it can ask this server for nothing, and an address whose word opens nothing else.
"""

import contextlib
import json
import os
import secrets
import shutil
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path
from typing import Any

from harness.errors import MISFITS, HarnessError, UsageError
from harness.history.files_below import FilesBelow
from harness.host.clock import SystemClock
from harness.host.printable import printable, visible
from harness.web import lists
from harness.web.live import LiveRuns
from harness.web.places import Places
from harness.web.requests import Asked, Words, asked, host_is_ours, joined
from reports.render import STYLES, filled

_LINGER_S, _LINGER_BYTES = 2.0, 1 << 20  # for what is still on its way when the answer was sent
_TEXT, _JSON, _HTML = "text/plain; charset=utf-8", "application/json", "text/html; charset=utf-8"
SERVED: Mapping[str, str] = {
    "report.html": _HTML,
    "comparison.html": _HTML,
    "campaign.html": _HTML,
    "trends.html": _HTML,
    "run.json": _JSON,
    "verdict.json": _JSON,
    "comparison.json": _JSON,
    "campaign.json": _JSON,
    "trends.json": _JSON,
    "scenario.toml": _TEXT,
    "scenario.source.toml": _TEXT,
    "summary.md": _TEXT,
    "junit.xml": _TEXT,
}
_STORED = "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
_STORED += "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
_OURS = "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; connect-src 'self'; "
_OURS += "frame-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
_LINK = "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; "
_LINK += "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class _Nothing(Exception):
    """There is nothing at this path; why is nobody's business who asks for it."""


class Server(ThreadingHTTPServer):
    """Listens when it is made. `address`: an IP address; `port` 0: any; `names`: what it may be called besides.

    Raises HarnessError where it cannot listen, UsageError where there is no folder.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 2 * Places.MOST  # a client that finds the queue full tries again after a second or three

    def __init__(self, top: Path, *, address: str, port: int, names: Sequence[str] = ()) -> None:
        if not top.is_dir():
            raise UsageError(f"--runs {top}: there is no such folder; name the one that run folders are in")
        self.files = FilesBelow(top)
        self.words = Words()
        self.places = Places()
        self.names = tuple(names)
        self.live = LiveRuns(clock=SystemClock())
        self.looking = threading.Lock()
        if ":" in address:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((address, port), Handler)
        except (OSError, OverflowError) as error:
            raise HarnessError(f"--listen {address} --port {port}: cannot be listened at: {error}") from error

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        name = str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}/{self.words.secret}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.places.take(request):
            super().process_request(request, client_address)
        else:
            super().shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.leave(request)

    def service_actions(self) -> None:
        """Called again and again while it serves."""
        self.places.end_what_is_late()

    def shutdown_request(self, request: Any) -> None:
        """Takes what the client still sends, within bounds: closing on unread bytes would reset the connection, and the
        answer might never arrive."""
        ends = time.monotonic() + _LINGER_S
        left = _LINGER_BYTES
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_WR)
            while left > 0 and (wait_s := ends - time.monotonic()) > 0:
                request.settimeout(wait_s)
                part = request.recv(min(left, 1 << 16))
                if not part:
                    break
                left -= len(part)
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of ours; all else was answered."""


class Handler(BaseHTTPRequestHandler):
    """One request, then the connection ends."""

    server: Server
    server_version = "kafka-chaos"
    sys_version = ""

    def do_GET(self) -> None:
        try:
            if not host_is_ours(self.headers.get("Host"), self.server.names):
                self._answer(HTTPStatus.MISDIRECTED_REQUEST, b"not under this name\n", kind=_TEXT)
                return
            request = asked(self.path, words=self.server.words)
            if request is None:
                raise _Nothing
            self.server.places.keep(self.connection, request.reach)
            self._route(request)
        except (_Nothing, HarnessError, FileNotFoundError):
            self._answer(HTTPStatus.NOT_FOUND, b"nothing here\n", kind=_TEXT)
        except OSError as error:
            if not self.wfile.closed:
                self.log_error("%s", error)
        except MISFITS:  # what somebody else wrote, or a bug of ours: told, and survived
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"what lies there cannot be shown\n", kind=_TEXT)

    do_HEAD = do_GET  # noqa: N815  # http.server's name

    def _refuse(self) -> None:
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n", kind=_TEXT, more={"Allow": "GET, HEAD"})

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _refuse  # noqa: N815

    # -- paths ---------------------------------------------

    def _route(self, request: Asked) -> None:
        if request.reach != "all":
            self._stored(request)
            return
        match request.parts:
            case ():
                self._list(request)
            case ("campaign", name):
                self._list(request, (lists.CAMPAIGNS, name, "runs"))
            case ("search",):
                self._search(request.query.get("finding", ""))
            case ("live", *place) if place:
                self._run_at(place)
                self._page("serve_live.html.j2", scripts=("serve_live.js",), place=place, name=place[-1])
            case ("state", *place) if place:
                with self.server.looking:
                    state = self.server.live.of(self._run_at(place)).look()
                self._answer(HTTPStatus.OK, json.dumps(_shown(state)).encode(), kind=_JSON)
            case ("files", *place) if place and place[-1] in SERVED:
                self._framed(place) if SERVED[place[-1]] == _HTML else self._file(place)
            case _:
                raise _Nothing

    def _stored(self, request: Asked) -> None:
        """What a stored page's own word opens: that page, and of any other only the question who opens it."""
        place = request.parts
        if not place or place[-1] not in SERVED:
            raise _Nothing
        if request.reach == "page":
            self._file(place)
        else:
            self._page("serve_link.html.j2", scripts=("serve_link.js",), policy=_LINK, wanted=joined(place))

    def _list(self, request: Asked, place: Sequence[str] = ()) -> None:
        top = self.server.files.top
        campaigns = [path.name for path in lists.campaign_folders(top)]
        if place and place[1] not in campaigns:
            raise _Nothing
        start = request.query.get("from", "0")
        first = int(start) if start.isdecimal() and len(start) < 9 else 0
        listed, count = lists.runs_below(top, place, start=first)
        pages = [] if place else lists.pages_below(top)
        of_campaigns = {name: [each for each in pages if each[:2] == ("campaigns", name)] for name in campaigns}
        self._page(
            "serve_list.html.j2",
            listed=listed,
            count=count,
            first=first,
            last=first + len(listed),
            place=place,
            campaigns={} if place else of_campaigns,
            pages=[each for each in pages if each not in chain.from_iterable(of_campaigns.values())],
            folder=str(top),
        )

    def _search(self, wanted: str) -> None:
        searched = lists.search(self.server.files.top, wanted) if wanted.strip() else None
        self._page("serve_search.html.j2", wanted=wanted, searched=searched)

    def _run_at(self, place: Sequence[str]) -> Path:
        """Whatever is no run folder below the top is not there; a link on the way is none."""
        with self.server.files.open(joined((*place, "run.json"))):
            return self.server.files.top.joinpath(*place)

    def _framed(self, place: Sequence[str]) -> None:
        with self.server.files.open(joined(place)):
            word = self.server.words.of_page(place)
        self._page("serve_stored.html.j2", scripts=("serve_stored.js",), place=place, word=word)

    def _file(self, place: Sequence[str]) -> None:
        with self.server.files.open(joined(place)) as file:
            kind = SERVED[place[-1]]
            self._head(HTTPStatus.OK, kind, os.fstat(file.fileno()).st_size, policy=_STORED)
            if self.command != "HEAD":
                shutil.copyfileobj(file, self.wfile)

    # -- answers -------------------------------------------

    def _page(self, template: str, *, scripts: Sequence[str] = (), policy: str = _OURS, **values: object) -> None:
        nonce = secrets.token_urlsafe(16)
        given = {"nonce": nonce, **({"home": f"/{self.server.words.secret}/"} if policy == _OURS else {}), **values}
        html = filled(template, styles=(*STYLES, "serve.css"), scripts=scripts, **given)
        self._answer(HTTPStatus.OK, html.encode(), kind=_HTML, policy=policy.format(nonce=nonce))

    def _answer(
        self,
        status: HTTPStatus,
        body: bytes,
        *,
        kind: str,
        policy: str = _STORED,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self._head(status, kind, len(body), policy=policy, more=more)
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(
        self, status: HTTPStatus, kind: str, length: int, *, policy: str, more: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(length), "Content-Security-Policy": policy}
        for name, value in (headers | _ALWAYS | dict(more or {})).items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server finds wrong with a request by itself; its words are not shown, for they quote it."""
        self.close_connection = True
        self.request_version = "HTTP/1.0"  # one that has headers, whatever was asked
        if not hasattr(self, "command") or self.command is None:
            self.command = "GET"
        self._answer(HTTPStatus(code), b"no such request is answered\n", kind=_TEXT)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # http.server's name
        """Requests are not logged: their path has the secret."""


def _shown(value: Any) -> Any:
    """The texts of an answer as a page may show them."""
    if isinstance(value, dict):
        return {key: _shown(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_shown(each) for each in value]
    return visible(value) if isinstance(value, str) else value


def serve(server: Server, *, tell: Callable[[str], None]) -> None:
    """Until Ctrl-C."""
    tell(f"Serving {printable(server.files.top)} at {server.url}")
    tell("Read-only. Whoever has this address can read these runs. Ctrl-C ends it.")
    with server:
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            tell("Ended.")
