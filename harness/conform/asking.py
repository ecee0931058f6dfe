"""Asks rows one after the other and says of each what it came to; bounded in time, whoever answers, or does not.

A connection that is closed, or an answer that is late, may be the machine's and not the broker's: such a row is asked
once more, with new names, on new connections. A broker that closes the connection again instead of an answer, and then
answers others, breaks a promise; one that is silent leaves the row undecided.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence

from kafka.protocol.metadata import ApiVersionsRequest

from harness.cluster.broker_requests import UnreadableAnswer
from harness.conform import groups, idempotence, producing, reading, topics, transactions, versions
from harness.conform.groups import delete_groups
from harness.conform.probe import ASK_S, Probe
from harness.conform.row import (
    AnsweredNothing,
    Looked,
    NotOffered,
    Result,
    Row,
    State,
    Undecided,
    Undecodable,
    together,
    words_of,
)
from harness.errors import MISFITS, misfit

ROWS: Sequence[Row] = (
    *versions.ROWS,
    *topics.ROWS,
    *producing.ROWS,
    *idempotence.ROWS,
    *reading.ROWS,
    *groups.ROWS,
    *transactions.ROWS,
)
READING_ROWS: Sequence[Row] = tuple(row for row in ROWS if row.reads)
ROW_S = 60.0
ALL_S = 600.0


async def results(probes: Mapping[str, Probe], rows: Sequence[Row], *, all_s: float = ALL_S) -> AsyncIterator[Result]:
    """Each row is asked at every address (of `probes`), and is one result. What is not asked before the time is over is
    undecided."""
    deadline = time.monotonic() + all_s
    for row in rows:
        yield together({at: await _in_time(probe, row, deadline, all_s) for at, probe in probes.items()})


async def _in_time(probe: Probe, row: Row, deadline: float, all_s: float) -> Result:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        return Result(row=row, state=State.UNDECIDED, seen=f"not asked: {all_s:g} s were over")
    return await _asked(probe, row, again=True, within_s=min(ROW_S, left_s))


async def delete_all(probes: Mapping[str, Probe]) -> list[str]:
    """What rows have made; returns what may be left, and why."""
    left = []
    for probe in probes.values():
        probe.close()
        left += [*await delete_groups(probe), *await probe.delete_topics()]
    return left


async def _asked(probe: Probe, row: Row, *, again: bool, within_s: float) -> Result:
    began = time.monotonic()
    looked = Looked()
    undecodable = None
    try:
        async with asyncio.timeout(within_s):
            seen = await _tried(probe, row, looked)
        state = State.CONFORMS
    except NotOffered as error:
        state, seen = State.NOT_OFFERED, str(error)
    except Undecided as error:
        state, seen = State.UNDECIDED, str(error)
    except AnsweredNothing as error:
        node, api, version = probe.last_asked
        state, seen = State.VIOLATES, f"{api} version {version}, broker {node}: {error}"
    except UnreadableAnswer as error:
        undecodable = Undecodable(api=error.api, version=error.version, why=error.why, answer=error.answer.hex())
        state, seen = State.VIOLATES, str(undecodable)
    except (OSError, TimeoutError) as error:
        left_s = within_s - (time.monotonic() - began)
        if again and left_s > 0 and not looked.broken:
            return await _asked(probe, row, again=False, within_s=left_s)
        state, seen = await _without_answer(probe, error)
    except MISFITS as error:  # a null or a type that its version does not have, or a bug of ours
        state, seen = State.UNDECIDED, str(misfit(row.name, error, what="what the broker answers"))
    if looked.broken:  # it stays seen, whatever came after it
        state, seen = State.VIOLATES, "; ".join(filter(None, (words_of(looked.broken), seen if undecodable else "")))
    took_s = time.monotonic() - began
    return Result(row=row, state=state, seen=seen, facts=looked.facts, undecodable=undecodable, duration_s=took_s)


async def _tried(probe: Probe, row: Row, looked: Looked) -> str:
    probe.begin_row()
    for need in row.needs:
        probe.versions(need.api, least=need.version)
    if len(probe.addresses) < row.brokers:
        raise NotOffered(f"it takes {row.brokers} brokers to ask, and there is {len(probe.addresses)}")
    return await row.ask(probe, looked)


async def _without_answer(probe: Probe, error: OSError | TimeoutError) -> tuple[State, str]:
    """For the second time."""
    node, api, version = probe.last_asked
    asked = f"{api} version {version}"
    if not isinstance(error, ConnectionResetError):
        return State.UNDECIDED, f"no answer to {asked} from broker {node}: {type(error).__name__} {error}".rstrip()
    try:
        await probe.connection(node, "after").ask_exactly(ApiVersionsRequest(), 0, timeout_s=ASK_S)
    except (OSError, TimeoutError):
        return State.UNDECIDED, f"broker {node} closed the connection at {asked}, and answers nothing else either"
    return State.VIOLATES, f"broker {node} closes the connection instead of an answer to {asked}, twice"
