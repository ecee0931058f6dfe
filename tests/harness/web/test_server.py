"""`serve` shows what lies below its folder to whoever has its address, and nothing else to anybody."""

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import HarnessError, UsageError
from harness.web.places import Places
from harness.web.requests import Words, asked, host_is_ours
from harness.web.server import Server
from tests.reports.stories.judged_folder import HOSTILE
from tests.reports.stories.unclean_story import loss_run
from tests.waiting import until

OUTSIDE = "what nobody may read"


class Site:
    """A server of a folder with one judged run, and a file beside the folder that nobody may read."""

    def __init__(self, server: Server, run: Path) -> None:
        self.server = server
        self.run = run

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    def raw(self, request: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while part := connection.recv(65536):
                answer += part
        return answer

    def get(self, path: str, *, method: str = "GET", host: str = "localhost") -> tuple[int, dict[str, str], str]:
        """(status, headers, body) of a path below the secret word."""
        line = f"{method} /{self.server.words.secret}/{path} HTTP/1.1\r\nHost: {host}\r\n\r\n"
        return parsed(self.raw(line.encode("latin-1")))

    def stored(self, place: str, *, method: str = "GET", word: str = "") -> tuple[int, dict[str, str], str]:
        """The stored page itself, below its own word."""
        path = f"{word or self.server.words.of_page(place.split('/'))}/{place}"
        line = f"{method} /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        return parsed(self.raw(line.encode("latin-1")))


def parsed(answer: bytes) -> tuple[int, dict[str, str], str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, body.decode("utf-8")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "outside.json").write_text(OUTSIDE)
    (tmp_path / "run.json").write_text(OUTSIDE)
    top = tmp_path / "runs"
    run = loss_run(top, hostile=HOSTILE)
    (run / "report.html").write_text("<p>the page</p>")
    server = Server(top, address="127.0.0.1", port=0)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield Site(server, run)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_list_leads_to_each_runs_page_course_and_findings(site: Site) -> None:
    status, _, body = site.get("")
    home = f"/{site.server.words.secret}/"
    assert status == 200
    for place in (f"files/{site.run.name}/report.html", f"live/{site.run.name}"):
        assert f'href="{home}{place}"' in body
        assert site.get(place)[0] == 200
    assert json.loads(site.get(f"state/{site.run.name}")[2])["verdict"] == "pass"
    assert site.run.name in site.get("search?finding=lost-write")[2]
    assert "0 in 1 run" in site.get("search?finding=no-such-thing")[2]


def test_the_comparison_of_a_nightly_is_listed_and_served_and_a_linked_folder_is_not(
    site: Site, tmp_path: Path
) -> None:
    for name, comparison in (("night", tmp_path / "runs" / "campaigns" / "night" / "comparison"), ("other", tmp_path)):
        campaign = site.server.files.top / "campaigns" / name
        campaign.mkdir(parents=True)
        (campaign / "campaign.json").write_text("{}")
        comparison.mkdir(exist_ok=True)
        (comparison / "comparison.html").write_text("<p>beside each other</p>")
    (campaign / "comparison").symlink_to(tmp_path)
    body = site.get("")[2]
    place = "campaigns/night/comparison/comparison.html"
    assert f'href="/{site.server.words.secret}/files/{place}"' in body
    assert site.stored(place)[2] == "<p>beside each other</p>"
    assert "campaigns/other/comparison" not in body


def test_what_a_run_says_of_itself_never_becomes_markup(site: Site) -> None:
    for path in ("", "search?finding=lost", f"live/{site.run.name}", "search?finding=%3Cscript%3Ealert(1)"):
        _, headers, body = site.get(path)
        assert "<b>" not in body.replace("<b>kafka-chaos</b>", "")
        assert "<script>" not in body
        assert "script-src 'nonce-" in headers["Content-Security-Policy"]


def test_a_stored_page_gets_an_origin_of_its_own_in_which_it_can_ask_for_nothing(site: Site) -> None:
    policy = site.stored(f"{site.run.name}/report.html")[1]["Content-Security-Policy"]
    assert policy.startswith("sandbox allow-scripts;")
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy


def test_a_stored_pages_own_word_opens_that_page_and_nothing_else(site: Site) -> None:
    place = f"{site.run.name}/report.html"
    word = site.server.words.of_page(place.split("/"))
    assert site.server.words.secret not in site.stored(place)[2]
    frame = site.get(f"files/{place}")[2]
    assert f'src="/{word}/{place}"' in frame
    assert "<p>the page</p>" not in frame
    for other in ("", f"files/{place}", f"{site.run.name}/run.json", "search", f"live/{site.run.name}", "../run.json"):
        status, _, body = site.stored(other, word=word)
        assert status == 404 or "is opened from the list of runs" in body
        assert site.server.words.secret not in body
        assert '"scenario"' not in body
    assert site.stored(place, word=word[:-1] + "A")[0] == site.stored(place, word=word[:22])[0] == 404


def test_a_run_whose_name_no_address_can_have_is_a_row_without_links(site: Site) -> None:
    top = site.server.files.top
    (top / os.fsdecode(b"a\xff")).mkdir()
    (top / os.fsdecode(b"a\xff") / "run.json").write_text('{"id": "odd"}')
    for bad in (b"b\xff", b"c"):
        campaign = top / "campaigns" / os.fsdecode(bad)
        (campaign / "runs" / os.fsdecode(b"d\xff")).mkdir(parents=True)
        (campaign / "campaign.json").write_text("{}")
        (campaign / "campaign.html").write_text("")
        (campaign / "runs" / os.fsdecode(b"d\xff") / "run.json").write_text("{}")
    status, _, body = site.get("")
    assert status == 200
    assert "odd<br>" in body
    assert "No address can name its folder" in body
    assert f"live/{site.run.name}" in body
    assert "files/campaigns/c/campaign.html" in body
    assert site.get("campaign/c")[0] == 200
    assert "in 3 runs" in site.get("search?finding=no-such-thing")[2]


HUGE = 2**63 - 1


def test_a_number_that_no_run_json_has_costs_only_its_own_run(site: Site) -> None:
    path = site.run / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"ended_ns": 10**400}))
    status, _, body = site.get("")
    assert (status, f"live/{site.run.name}" in body) == (200, True)
    assert site.get(f"state/{site.run.name}")[0] == 404


@pytest.mark.parametrize(
    "changed",
    [
        {"phases": [{"name": "act", "t": HUGE}, {"name": "heal", "t": -5}, {"name": "seal", "t": "x"}]},
        {"anchors": [{"monotonic_ns": HUGE, "wall_ns": HUGE}]},
        {"ended_ns": HUGE},
        {"status": "started", "ended_ns": -HUGE},
        {"seed": HUGE},
    ],
)
def test_a_time_that_no_clock_has_costs_only_itself(site: Site, changed: dict[str, object]) -> None:
    path = site.run / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    assert f"live/{site.run.name}" in site.get("")[2]
    status, _, body = site.get(f"state/{site.run.name}")
    assert status == 200
    assert [each["name"] for each in json.loads(body)["phases"]] in ([], ["act"]) or "phases" not in changed
    assert json.loads(body)["unreadable"] == (2 if "phases" in changed else 0)


@pytest.mark.parametrize(
    "path",
    [
        "files/../run.json",
        "files/../../run.json",
        "files/%2e%2e/run.json",
        "files/%2E%2E%2Frun.json",
        "files/..%2frun.json",
        "files/%252e%252e/run.json",
        "files/..%5crun.json",
        "files/RUN/../../run.json",
        "files//run.json",
        "files//etc/passwd",
        "files/%2fetc%2fpasswd",
        "files//proc/self/environ",
        "files/RUN/run.json%00.html",
        "files/RUN%00/run.json",
        "files/RUN/./run.json",
        "files/RUN/%2e/run.json",
        "files/RUN/lock",
        "files/RUN/history/controller.jsonl",
        "files/RUN/tables/findings.parquet",
        "files/RUN",
        "files/RUN/nodes/run.json",
        "files/link/run.json",
        "files/RUN/verdict.json/run.json",
        "files/c%CC%A7%C0%AF/run.json",
        "files/.hidden/run.json",
        "live/..",
        "live/link",
        "state/../x",
        "state/link",
        "state/%2e%2e",
        "live/RUN/history",
        "campaign/..",
        "campaign/link",
        "no-such-page",
        "files",
        "live",
    ],
)
def test_nothing_outside_the_folder_and_no_other_file_is_served(site: Site, path: str, tmp_path: Path) -> None:
    top = site.server.files.top
    (top / "link").symlink_to(tmp_path)
    (top / ".hidden").mkdir()
    (top / ".hidden" / "run.json").write_text(OUTSIDE)
    (site.run / "nodes" / "run.json").symlink_to(tmp_path / "outside.json")
    status, _, body = site.get(path.replace("RUN", site.run.name))
    assert (status, body) == (404, "nothing here\n")


def test_a_link_in_the_place_of_a_file_that_is_served_is_not_followed(site: Site, tmp_path: Path) -> None:
    (site.run / "summary.md").symlink_to(tmp_path / "outside.json")
    (site.run / "report.html").unlink()
    (site.run / "report.html").symlink_to(tmp_path / "outside.json")
    for name in ("summary.md", "report.html"):
        status, _, body = site.get(f"files/{site.run.name}/{name}")
        assert (status, body) == (404, "nothing here\n")


def test_without_the_secret_word_there_is_nothing(site: Site) -> None:
    for path in (
        "/",
        f"/files/{site.run.name}/run.json",
        f"/{site.server.words.secret}x/",
        "/x/",
        "http://localhost/",
        "*",
    ):
        status, _, body = parsed(site.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()))
        assert (status, body) == (404, "nothing here\n")


@pytest.mark.parametrize(
    "host", ["attacker.example", "localhost.attacker.example:8790", "127.0.0.1.attacker.example", ""]
)
def test_a_name_that_was_made_to_lead_to_loopback_is_not_answered(site: Site, host: str) -> None:
    status, _, body = site.get("", host=host)
    assert status == 421
    assert site.run.name not in body


def test_a_host_is_an_address_or_localhost_or_a_name_that_was_allowed() -> None:
    ours = ("localhost", "LOCALHOST:80", "127.0.0.1:8790", "[::1]", "[::1]:8790", "10.1.2.3:1", "box.lan:8790")
    others = (
        None,
        "",
        "box",
        "box.lan.",
        "box.lan:",
        "box.lan:80:80",
        "::1",
        "[127.0.0.1]",
        "[::1",
        "127.0.0.1:x",
        "a b",
    )
    assert all(host_is_ours(host, ["box.lan"]) for host in ours)
    assert not any(host_is_ours(host, ["box.lan"]) for host in others)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_only_reading_is_answered(site: Site, method: str) -> None:
    status, headers, _ = site.get("", method=method)
    assert status == 405
    assert headers["Allow"] == "GET, HEAD"


def test_head_tells_the_length_and_sends_nothing(site: Site) -> None:
    status, headers, body = site.stored(f"{site.run.name}/report.html", method="HEAD")
    assert (status, headers["Content-Length"], body) == (200, str(len("<p>the page</p>")), "")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 200 + b"\r\n", 431),
        (b"GET /" + b"a" * 5_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"BREW /<script> HTTP/1.1\r\nHost: localhost\r\n\r\n", 501),
        (b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", 505),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 x\r\n\r\n", 400),
    ],
)
def test_what_is_huge_or_no_request_is_refused_in_a_line_that_quotes_nothing(
    site: Site, request_: bytes, status: int
) -> None:
    stored, _, body = parsed(site.raw(request_))
    assert stored == status
    assert "script" not in body
    assert site.get("")[0] == 200


def test_the_answer_to_a_huge_request_arrives_although_most_of_it_was_never_read(site: Site) -> None:
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 100_000 + b"\r\n"
    for _ in range(20):
        assert parsed(site.raw(request))[0] == 431


def test_clients_that_are_slow_give_way_to_whoever_comes_next(site: Site) -> None:
    with contextlib.ExitStack() as neighbours:
        slow = [
            neighbours.enter_context(socket.create_connection(("127.0.0.1", site.port), timeout=30))
            for _ in range(3 * Places.MOST)
        ]
        for connection in slow[-Places.MOST :]:
            with contextlib.suppress(OSError):
                connection.sendall(b"GET /x/ HTTP/1.1\r\nHost: localhost\r\n")
        for _ in range(5):
            assert site.get("")[0] == 200
        for connection in slow[: Places.MOST]:
            assert connection.recv(1) == b""


def test_a_request_has_its_time_as_a_whole_however_busy_it_seems(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Places, "ASKED_WITHIN_S", 0.5)

    with socket.create_connection(("127.0.0.1", site.port), timeout=30) as slow:
        slow.sendall(b"GET /x/ HTTP/1.1\r\n")

        def ended() -> bool:
            try:
                slow.sendall(b"X: a\r\n")
            except OSError:
                return True
            return False

        until(ended, "the connection is ended while it goes on sending")
    (site.run / "report.html").write_bytes(b"x" * (64 << 20))
    monkeypatch.setattr(Places, "ANSWERED_WITHIN_S", 0.5)
    with socket.create_connection(("127.0.0.1", site.port), timeout=30) as slow:
        place = (site.run.name, "report.html")
        path = "/".join((site.server.words.of_page(place), *place))
        slow.sendall(f"GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert slow.recv(4) == b"HTTP"
        until(lambda: not site.server.places.taken, "the answer that nobody takes is given up")


def test_those_that_have_shown_the_secret_word_give_way_to_nobody(tmp_path: Path) -> None:
    places = Places()
    with contextlib.ExitStack() as open_ones:
        pairs = [socket.socketpair() for _ in range(Places.MOST + 1)]
        for one, other in pairs:
            open_ones.enter_context(one)
            open_ones.enter_context(other)
        for one, _ in pairs[:-1]:
            assert places.take(one)
            places.keep(one, "all")
        assert not places.take(pairs[-1][0])
        places.leave(pairs[0][0])
        assert places.take(pairs[-1][0])


def test_those_that_know_a_pages_word_alone_cannot_take_all_places(site: Site) -> None:
    """Whoever wrote a page can find out its word and tell it to a neighbour, who takes the answer slowly."""
    place = (site.run.name, "report.html")
    site.run.joinpath(*place[1:]).write_bytes(b"x" * (64 << 20))
    path = "/".join((site.server.words.of_page(place), *place))
    with contextlib.ExitStack() as neighbours:
        for _ in range(2 * Places.MOST):
            slow = neighbours.enter_context(socket.create_connection(("127.0.0.1", site.port), timeout=30))
            slow.sendall(f"GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert slow.recv(4) == b"HTTP"
        for _ in range(5):
            assert site.get("")[0] == 200


def test_of_those_with_a_pages_word_half_the_places_are_kept_however_many_come(tmp_path: Path) -> None:
    places = Places()
    with contextlib.ExitStack() as open_ones:
        pairs = [tuple(map(open_ones.enter_context, socket.socketpair())) for _ in range(2 * Places.MOST)]
        for one, _ in pairs:
            assert places.take(one)
            places.keep(one, "page")
        wordless = [tuple(map(open_ones.enter_context, socket.socketpair())) for _ in range(Places.MOST)]
        for one, _ in wordless:
            assert places.take(one)

        def is_open(other: socket.socket) -> bool:
            other.setblocking(False)
            try:
                return other.recv(1) != b""
            except BlockingIOError:
                return True

        half = Places.MOST // 2
        assert [is_open(other) for _, other in pairs] == [False] * (len(pairs) - half) + [True] * half
        assert [is_open(other) for _, other in wordless] == [False] * half + [True] * half


def test_as_many_clients_as_there_are_places_can_come_at_once(tmp_path: Path) -> None:
    """Nobody is served yet: all of them wait in the queue, and none of them outside it, trying again later."""
    with Server(tmp_path, address="127.0.0.1", port=0) as server, contextlib.ExitStack() as clients:
        for _ in range(Places.MOST):
            client = socket.create_connection(("127.0.0.1", server.server_port), timeout=10)
            assert clients.enter_context(client).getpeername() == server.server_address


def test_a_path_is_decoded_once_and_cut_at_its_own_slashes() -> None:
    words = Words()
    reported = asked(f"/{words.secret}/files/a%20b/run.json?x=1&x=2", words=words)
    assert reported is not None
    assert (reported.parts, reported.reach) == (("files", "a b", "run.json"), "all")
    assert reported.query == {"x": "2"}
    assert asked(f"/{words.secret}", words=words) is not None
    assert asked(f"/{words.secret}/a%0ab", words=words) is None
    assert asked(f"/%{ord(words.secret[0]):02x}{words.secret[1:]}/a", words=words) is None


def test_where_it_cannot_listen_is_one_line(tmp_path: Path, site: Site) -> None:
    with pytest.raises(HarnessError, match="cannot be listened at"):
        Server(tmp_path, address="127.0.0.1", port=site.port)
    with pytest.raises(UsageError, match="no such folder"):
        Server(tmp_path / "none", address="127.0.0.1", port=0)
