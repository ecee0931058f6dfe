"""The brokers' client with the service, on one event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from reference_impl.coordination.client import (
    BadVersion,
    Check,
    ConnectionLost,
    CoordinationClient,
    Create,
    Delete,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    Set,
    WatchEvent,
)

if TYPE_CHECKING:
    from tests.reference_impl.coordination.conftest import Services


async def test_what_was_written_is_read(services: Services) -> None:
    client = (await services.client()).client
    created = await client.create("/a", b"one")
    changed = await client.set("/a", b"two", version=0)
    data, stat = await client.get("/a")
    assert (data, stat) == (b"two", changed)
    assert (stat.version, stat.czxid, stat.data_length) == (1, created.czxid, 3)
    await client.create("/a/b", b"")
    assert await client.children("/a") == ["b"]
    assert await client.exists("/missing") is None


async def test_each_refusal_has_its_own_error(services: Services) -> None:
    client = (await services.client()).client
    await client.create("/a", b"")
    await client.create("/a/b", b"")
    await client.create("/e", b"", ephemeral=True)
    with pytest.raises(NodeExists):
        await client.create("/a", b"")
    with pytest.raises(NoNode):
        await client.get("/missing")
    with pytest.raises(NoNode):
        await client.create("/missing/child", b"")
    with pytest.raises(NotEmpty):
        await client.delete("/a")
    with pytest.raises(NoChildrenForEphemerals):
        await client.create("/e/child", b"")


async def test_the_second_of_two_conditional_writes_loses(services: Services) -> None:
    first, second = (await services.client()).client, (await services.client()).client
    version = (await first.create("/controller_epoch", b"0")).version
    outcomes = await asyncio.gather(
        first.set("/controller_epoch", b"1", version=version),
        second.set("/controller_epoch", b"1", version=version),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes].count(BadVersion) == 1
    assert (await first.get("/controller_epoch"))[1].version == version + 1
    with pytest.raises(BadVersion):
        await first.delete("/controller_epoch", version=version)


async def test_a_multi_happens_as_a_whole(services: Services) -> None:
    client = (await services.client()).client
    await client.create("/epoch", b"0")
    stats = await client.multi(
        [
            Check(path="/epoch", version=0),
            Create(path="/t", data=b"x"),
            Create(path="/t/p", data=b"y", ephemeral=True),
            Set(path="/epoch", data=b"1", version=0),
            Delete(path="/t/p"),
        ]
    )
    assert [stat is None for stat in stats] == [True, False, False, False, True]
    assert stats[1] is not None
    assert stats[3] is not None
    assert stats[1].czxid == stats[3].mzxid
    assert await client.exists("/t/p") is None


async def test_a_multi_with_one_refusal_changes_nothing(services: Services) -> None:
    client = (await services.client()).client
    await client.create("/epoch", b"0")
    with pytest.raises(BadVersion, match="/epoch"):
        await client.multi([Create(path="/t", data=b""), Set(path="/epoch", data=b"1", version=7), Delete(path="/t")])
    assert await client.exists("/t") is None
    assert (await client.get("/epoch"))[0] == b"0"


async def test_watches_tell_of_creation_change_children_and_deletion_once(services: Services) -> None:
    watcher, writer = await services.client(), (await services.client()).client
    await watcher.client.exists("/a", watch=True)
    await writer.create("/a", b"")
    await watcher.until(lambda: len(watcher.watches) == 1)
    await watcher.client.get("/a", watch=True)
    await watcher.client.children("/a", watch=True)
    await writer.set("/a", b"1", version=-1)
    await writer.set("/a", b"2", version=-1)
    await writer.create("/a/b", b"")
    await writer.create("/a/c", b"")
    await watcher.until(lambda: len(watcher.watches) == 3)
    await watcher.client.get("/a/b", watch=True)
    await writer.delete("/a/b")
    await watcher.until(lambda: len(watcher.watches) == 4)
    assert watcher.watches == [
        WatchEvent(kind="created", path="/a"),
        WatchEvent(kind="changed", path="/a"),
        WatchEvent(kind="children", path="/a"),
        WatchEvent(kind="deleted", path="/a/b"),
    ]


async def test_a_watch_arrives_before_any_later_answer(services: Services) -> None:
    witness = await services.client()
    await witness.client.create("/a", b"")
    await witness.client.get("/a", watch=True)
    await witness.client.set("/a", b"1", version=-1)
    assert witness.watches == [WatchEvent(kind="changed", path="/a")]


async def test_closing_a_client_deletes_its_ephemerals_at_once(services: Services) -> None:
    watcher, leaver = await services.client(), await services.client(session_timeout_ms=60_000)
    await leaver.client.create("/controller", b"1", ephemeral=True)
    stat = await watcher.client.exists("/controller", watch=True)
    assert stat is not None
    assert stat.ephemeral_owner == leaver.client.session_id
    await leaver.client.close()
    await watcher.until(lambda: watcher.watches == [WatchEvent(kind="deleted", path="/controller")])
    with pytest.raises(SessionExpired):
        await leaver.client.get("/")


async def test_a_restarted_service_keeps_session_ephemerals_and_watches(services: Services) -> None:
    witness = await services.client(session_timeout_ms=5_000)
    await witness.client.create("/me", b"", ephemeral=True)
    await witness.client.create("/a", b"")
    await witness.client.get("/a", watch=True)
    await witness.client.exists("/later", watch=True)
    await witness.client.children("/", watch=True)
    session_id = witness.client.session_id

    await services.stop_service()
    await witness.until(lambda: witness.session[-1] == "disconnected")
    with pytest.raises(ConnectionLost):
        await witness.client.get("/a")
    await services.start_service()
    await witness.until(lambda: witness.session == ["connected", "disconnected", "connected"])

    assert witness.client.session_id == session_id
    assert await witness.client.exists("/me") is not None
    assert witness.watches == []
    await witness.client.set("/a", b"1", version=0)
    await witness.client.create("/later", b"")
    assert witness.watches == [
        WatchEvent(kind="changed", path="/a"),
        WatchEvent(kind="created", path="/later"),
        WatchEvent(kind="children", path="/"),
    ]


async def test_what_changed_while_it_was_away_fires_on_return(services: Services) -> None:
    away = await services.client(session_timeout_ms=5_000)
    writer = (await services.client()).client
    for path in ("/changed", "/deleted", "/same", "/parent"):
        await writer.create(path, b"")
        await away.client.get(path, watch=True)
    await away.client.children("/parent", watch=True)
    await away.client.exists("/created", watch=True)
    services.drop_connection(away)
    await writer.set("/changed", b"1", version=0)
    await writer.delete("/deleted")
    await writer.create("/created", b"")
    await writer.create("/parent/child", b"")
    await away.until(lambda: len(away.watches) == 4)
    assert sorted((event.path, event.kind) for event in away.watches) == [
        ("/changed", "changed"),
        ("/created", "created"),
        ("/deleted", "deleted"),
        ("/parent", "children"),
    ]


async def test_a_pending_call_learns_that_nobody_knows_its_outcome(services: Services) -> None:
    witness = await services.client()
    pending = asyncio.ensure_future(witness.client.create("/a", b""))
    await asyncio.sleep(0)
    services.drop_connection(witness)
    with pytest.raises(ConnectionLost):
        await pending


async def test_a_silent_client_expires_and_learns_it_when_it_returns(services: Services) -> None:
    silent = await services.client(session_timeout_ms=300)
    watcher = await services.client()
    await silent.client.create("/brokers", b"")
    await silent.client.create("/brokers/1", b"", ephemeral=True)
    await watcher.client.children("/brokers", watch=True)
    await watcher.client.exists("/brokers/1", watch=True)
    services.cut_off(silent)
    await watcher.until(lambda: len(watcher.watches) == 2)
    assert watcher.watches == [
        WatchEvent(kind="deleted", path="/brokers/1"),
        WatchEvent(kind="children", path="/brokers"),
    ]
    assert silent.session == ["connected", "disconnected"]
    silent.cut_off = False
    await silent.until(lambda: silent.session[-1] == "expired")
    with pytest.raises(SessionExpired):
        await silent.client.get("/brokers")


async def test_a_client_that_pings_outlives_many_timeouts(services: Services) -> None:
    idle, clock = await services.client(session_timeout_ms=1000), await services.client(session_timeout_ms=4000)
    await idle.client.create("/idle", b"", ephemeral=True)
    await clock.client.create("/clock", b"", ephemeral=True)
    watcher = await services.client()
    await watcher.client.exists("/clock", watch=True)
    services.cut_off(clock)
    await watcher.until(lambda: len(watcher.watches) == 1)
    assert idle.session == ["connected"]
    assert await idle.client.exists("/idle") is not None


async def test_a_service_that_falls_silent_is_left_and_found_again(services: Services) -> None:
    witness = await services.client(session_timeout_ms=600)
    # A cut link: the connection stands, nothing comes through it.
    services.transport_of(witness).pause_reading()
    await witness.until(lambda: witness.session == ["connected", "disconnected", "connected"])
    assert await witness.client.exists("/") is not None


async def test_a_client_waits_for_a_service_that_is_not_there_yet(services: Services) -> None:
    await services.stop_service()
    starting = asyncio.ensure_future(services.client())
    await asyncio.sleep(0)
    await services.start_service()
    witness = await starting
    assert witness.session == ["connected"]


async def test_an_error_in_resolving_names_is_not_waited_out(services: Services) -> None:
    def resolve(name: str) -> str:
        raise KeyError(name)

    client = CoordinationClient(
        "nowhere:1", session_timeout_ms=1000, resolve=resolve, on_watch=lambda _: None, on_session=lambda _: None
    )
    with pytest.raises(KeyError):
        await client.start()
