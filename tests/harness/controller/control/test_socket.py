"""The socket: private, one line a request, one line an answer, and whoever says nonsense harms nobody but himself."""

import asyncio
import os
import socket
import stat
from pathlib import Path

import pytest

from harness.controller.control import socket_server
from harness.controller.control.requests import CODES, LINE_BYTES_MAX, WORDS
from harness.controller.control.socket_server import CONNECTIONS_MAX, bound
from harness.errors import UsageError
from tests.harness.controller.control.commanded import Commanded, commanded
from tests.waiting import PATIENCE_S, comes_true

PAGE = Path(__file__).parents[4] / "docs" / "control.md"


def test_the_page_names_every_request_and_every_error() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [word for word in WORDS if f'`{{"{word}":' not in text] == []
    assert [code for code in CODES if f"| `{code}` |" not in text] == []


def test_socket_and_folder_are_made_for_their_user_alone(private: Path, open_umask: None) -> None:
    path = private / "made" / "control"
    with bound(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_place_that_is_not_private_or_not_free_is_refused_with_the_remedy(private: Path) -> None:
    shared = private / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    (private / "file").write_text("mine")
    for path, said in (
        (shared / "control", f"chmod 700 {shared}"),
        (private / "file", "no socket; choose another path"),
        (private / ("x" * 120), "at most 107 bytes"),
        (private / "none" / "none" / "control", "choose a path"),
    ):
        with pytest.raises(UsageError, match="--control") as refused:
            bound(path)
        assert said in str(refused.value)
    assert (private / "file").read_text() == "mine"


def test_a_socket_that_nobody_serves_any_more_is_replaced_and_one_in_use_is_not(private: Path) -> None:
    path = private / "control"
    bound(path).close()  # its command was killed: the name stays
    with bound(path), pytest.raises(UsageError, match="another cluster is commanded there"):
        bound(path)


async def test_another_user_is_refused_and_learns_nothing(private: Path) -> None:
    async with commanded(private, uid=os.geteuid() + 1) as world:
        asking = await world.connect()
        reported = await asking.answer()
        assert (reported["ok"], reported["error"]["code"]) == (False, "not-allowed")
        assert await asking.is_closed()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"hello\n", "bad-json"),
        (b"\n", "bad-json"),
        (b"\xff\xfe\n", "bad-json"),
        (b'["state"]\n', "bad-json"),
        (b'{"id": 1}\n', "bad-request"),
        (b'{"id": [1], "state": {}}\n', "bad-request"),
        (b'{"state": {}, "end": {}}\n', "bad-request"),
        (b'{"state": {}, "state": {"topics": ["orders"]}}\n', "bad-request"),
        (b'{"act": {"kill": 1, "kill": 2}}\n', "bad-request"),
        (b'{"topic": {"name": "a", "settings": {"x": "1", "\\u0078": "2"}}}\n', "bad-request"),
        (b'{"stat": {}}\n', "bad-request"),
        (b'{"state": 5}\n', "bad-request"),
        (b'{"state": {"topics": [1]}}\n', "bad-request"),
        (b'{"state": {"topics": ["a b"]}}\n', "bad-request"),
        (b'{"topic": {"name": "a b"}}\n', "bad-request"),
        (b'{"topic": {"name": ".."}}\n', "bad-request"),
        (b'{"topic": {"name": ""}}\n', "bad-request"),
        (b'{"topic": {"name": "' + b"x" * 250 + b'"}}\n', "bad-request"),
        (b'{"record": {"topics": [{"name": "a/b"}]}}\n', "bad-request"),
        (b'{"state": {"topic": "orders"}}\n', "bad-request"),
        (b'{"state": {}, "within": "1 s"}\n', "bad-request"),
        (b'{"act": []}\n', "bad-request"),
        (b'{"act": {"kill": {"a": 1}}}\n', "bad-request"),
        (b'{"act": {"kill": "leader(orders"}}\n', "bad-request"),
        (b'{"act": {"kil": 1}}\n', "bad-request"),
        (b'{"act": {"kill": 1}, "within": "soon"}\n', "bad-request"),
        (b'{"act": {"kill": 1, "mode": "x"}}\n', "bad-request"),
        (b'{"act": {"elect": "preferred"}}\n', "bad-request"),
        (b'{"heal": 1}\n', "bad-request"),
        (b'{"heal": [99]}\n', "bad-request"),
        (b'{"heal": [true]}\n', "bad-request"),
        (b'{"wait": {"alive": [9]}}\n', "bad-request"),
        (b'{"wait": {"new_leader": "x"}}\n', "bad-request"),
        (b'{"wait": {"leader": 1}}\n', "bad-request"),
        (b'{"wait": {"acks": 5}}\n', "bad-request"),
        (b'{"topic": {"name": "x", "partitions": "many"}}\n', "bad-request"),
        (b'{"topic": {"partitions": 1}}\n', "bad-request"),
        (b'{"topic": {"name": "__consumer_offsets"}}\n', "bad-request"),
        (b'{"topic": {"name": "a/b"}}\n', "bad-request"),
        (b'{"record": {"topics": [{"name": "__transaction_state"}]}}\n', "bad-request"),
        (b'{"record": {"topics": []}}\n', "bad-request"),
        (b'{"record": {"topics": "orders"}}\n', "bad-request"),
        (b'{"client": {}}\n', "bad-request"),
        (b'{"check": {}}\n', "bad-request"),
        (b'{"act": ' + b'{"a":' * 500 + b"1" + b"}" * 500 + b"}\n", "bad-request"),
    ],
)
async def test_nonsense_is_answered_by_one_line_with_a_code_and_a_remedy_and_the_next_request_is_served(
    world: Commanded, line: bytes, code: str
) -> None:
    asking = await world.connect()
    reported = await asking.line(line)
    assert (reported["ok"], reported["error"]["code"]) == (False, code)
    assert reported["error"]["message"]
    assert reported["error"]["remedy"]
    again = await asking.ask(id="next", state={})
    assert (again["id"], again["ok"], again["faults"]) == ("next", True, [])


async def test_of_two_ids_none_is_given_back(world: Commanded) -> None:
    asking = await world.connect()
    reported = await asking.line(b'{"id": 1, "state": {"id": 3}, "id": 2}\n')
    assert (reported["id"], reported["error"]["code"]) == (None, "bad-request")
    reported = await asking.line(b'{"id": 1, "state": {"id": 3, "id": 4}}\n')
    assert (reported["id"], reported["error"]["code"]) == (1, "bad-request")


async def test_a_line_of_the_greatest_length_is_read_and_a_longer_one_ends_its_connection_alone(
    world: Commanded,
) -> None:
    asking = await world.connect()
    fits = b'{"id": 1, "state": {}}'
    assert (await asking.line(fits + b" " * (LINE_BYTES_MAX - len(fits)) + b"\n"))["ok"]
    reported = await asking.line(b"x" * (4 * LINE_BYTES_MAX) + b"\n")
    assert reported["error"]["code"] == "too-long"
    other = await world.connect()
    assert (await other.ask(state={}))["ok"]


@pytest.mark.parametrize("end", [b"\n", b""], ids=["whole", "half"])
async def test_a_line_that_is_one_byte_too_long_is_told_to_be_so_whether_it_ends_or_not(
    world: Commanded, end: bytes
) -> None:
    asking = await world.connect()
    longer = b'{"id": 1, "state": {}}'
    asking.writer.write(longer + b" " * (LINE_BYTES_MAX + 1 - len(longer)) + end)
    asking.writer.write_eof()
    assert (await asking.answer())["error"]["code"] == "too-long"
    assert await asking.is_closed()


async def test_half_a_line_is_refused_when_its_writer_has_nothing_more_to_say(world: Commanded) -> None:
    asking = await world.connect()
    asking.writer.write(b'{"act": {"kill": 1}')
    asking.writer.write_eof()
    assert (await asking.answer())["error"]["code"] == "bad-json"
    assert await asking.is_closed()
    assert world.cluster.deeds == []


async def test_a_client_that_goes_without_its_answer_leaves_its_fault_in_force_for_others_to_heal(
    world: Commanded,
) -> None:
    going, staying = await world.connect(), await world.connect()
    world.cluster.slow_s = 0.05
    going.writer.write(b'{"act": {"pause": 1}}\n')
    going.close()

    async def in_force() -> bool:
        return len((await staying.ask(state={}))["faults"]) == 1

    await comes_true(in_force, "the pause is in force")
    assert (await staying.ask(heal="all"))["ok"]
    assert world.cluster.paused == set()


async def test_many_clients_are_served_side_by_side_and_one_too_many_is_told_so(world: Commanded) -> None:
    waiting = await world.connect()
    waiting.writer.write(b'{"id": 0, "wait": {"alive": [1]}, "within": "30 s"}\n')
    asking = [await world.connect() for _ in range(CONNECTIONS_MAX - 1)]
    answers = await asyncio.gather(*(each.ask(id=number, state={}) for number, each in enumerate(asking)))
    assert [(each["id"], each["ok"]) for each in answers] == [(number, True) for number in range(len(asking))]
    one_more = await world.connect()
    assert (await one_more.answer())["error"]["code"] == "busy"


async def test_requests_sent_together_are_answered_in_their_order(world: Commanded) -> None:
    asking = await world.connect()
    asking.writer.write(b"".join(b'{"id": %d, "state": {}}\n' % number for number in range(20)))
    assert [(await asking.answer())["id"] for _ in range(20)] == list(range(20))


async def test_the_socket_is_gone_when_its_cluster_has_ended(private: Path) -> None:
    async with commanded(private) as world:
        asking = await world.connect()
        assert (await asking.ask(end={}))["ok"]
        await asyncio.wait_for(world.ended.wait(), 10)
        assert (await asking.ask(state={}))["error"]["code"] == "ending"
    assert not world.path.exists()
    with socket.socket(socket.AF_UNIX) as late, pytest.raises(FileNotFoundError):
        late.connect(str(world.path))


async def test_a_client_that_reads_no_answer_does_not_hold_the_end_of_the_cluster_up(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_server, "TAKEN_WITHIN_S", 0.1)
    async with asyncio.timeout(PATIENCE_S):
        async with commanded(private) as world:
            _, writer = await asyncio.open_unix_connection(str(world.path), limit=1)
            line = b'{"id": "' + b"x" * 99 + b'", "state": {}}\n'
            writer.write(line * 20_000)
            other = await world.connect()
            assert (await other.ask(state={}))["ok"]

            async def answers_wait() -> bool:
                return writer.transport.get_write_buffer_size() > 0

            await comes_true(answers_wait, "nobody takes the answers, and nobody reads on")
            world.connections.clear()
        writer.transport.abort()
    assert not world.path.exists()
