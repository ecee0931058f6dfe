"""The network of a simulated run: addresses, links between them, and what a cut does.

As in the local world, a link is known by the address under which its source reaches its target. A link that hangs holds
the bytes of its connections, in both directions, and connects nobody until it passes again, like dropped packets; one
that resets ends its connections and refuses new ones. Latencies are drawn from the network's own stream of chance.
"""

import asyncio
import contextvars
import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from harness.cluster.simulated.connection import End, LinkState, Mode
from harness.cluster.simulated.struck_frames import Striking
from harness.ports.requests import Requests

_LEAST_S, _MOST_S = 0.000_3, 0.003
_FIRST_PORT = 40_000

Factory = Callable[[], asyncio.BaseProtocol]
Address = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class _Listening:
    factory: Factory
    context: contextvars.Context


@dataclass(kw_only=True, eq=False)
class _Awaited:
    future: asyncio.Future[None]
    left: int  # such requests, until it is told


class Network:
    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._links: dict[str, LinkState] = {}
        self._routes: dict[str, tuple[LinkState, str]] = {}
        self._listening: dict[Address, _Listening] = {}
        self._last_port = _FIRST_PORT
        self._waiting: dict[int, list[_Awaited]] = {}

    def route(self, address: str, *, link: str, to: str, is_kafka: bool = False) -> None:
        """Whoever connects to `address` gets to the same port at `to`, by that link."""
        state = self._links.setdefault(link, LinkState(name=link, is_kafka=is_kafka, tell=self._tell))
        self._routes[address] = (state, to)

    # -- faults -------------------------------------------------------------------------------------------------------

    def cut(self, link: str, mode: Mode) -> int:
        """How many connections it has now."""
        state = self._links[link]
        state.cut = mode
        state.passing.clear()
        if mode == "reset":
            state.reset()
            state.passing.set()
        return len(state.connections)

    def heal(self, link: str, *, reset: bool) -> None:
        state = self._links[link]
        state.cut = None
        if reset:
            state.reset()
        else:
            state.release()
        state.passing.set()

    def slow(self, link: str, delay_s: float) -> None:
        self._links[link].delay_s = delay_s

    def strike(self, links: Sequence[str], requests: Requests) -> None:
        """Such frames wait, and what comes behind them on their connection; or they are lost."""
        striking = Striking(requests=requests)
        for link in links:
            self._links[link].striking.append(striking)

    def let_pass(self, links: Sequence[str], requests: Requests) -> tuple[int, int]:
        """Ends one such fault. How many frames it struck, and how many went on now, with those behind them; none,
        while another fault holds them there."""
        struck = passed = 0
        ended: list[Striking] = []
        for link in links:
            state = self._links[link]
            one = next((each for each in state.striking if each.requests == requests), None)
            if one is None:
                continue
            state.striking.remove(one)
            if one not in ended:
                ended.append(one)
                struck += one.struck
            before = state.held_frames
            state.release()
            passed += before - state.held_frames
        return struck, passed

    async def requested(self, api_key: int, nth: int = 1) -> None:
        """Returns when the nth such request from now leaves its sender, on a link."""
        waiting = _Awaited(future=asyncio.get_running_loop().create_future(), left=nth)
        self._waiting.setdefault(api_key, []).append(waiting)
        await waiting.future

    def _tell(self, api_key: int) -> None:
        waiting = self._waiting.get(api_key)
        if not waiting:
            return
        for each in waiting:
            each.left -= 1
            if each.left == 0 and not each.future.done():
                each.future.set_result(None)
        self._waiting[api_key] = [each for each in waiting if each.left > 0 and not each.future.done()]

    # -- what a loop asks of it ---------------------------------------------------------------------------------------

    async def connect(self, factory: Factory, host: str, port: int) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        link, address = self._routes.get(host) or (LinkState(name=""), host)
        await asyncio.sleep(2 * (self._latency_s() + link.delay_s))
        while link.cut == "hang":  # it may be cut again before the one who waits gets on
            await link.passing.wait()
        if link.cut is not None:
            raise ConnectionResetError(errno.ECONNRESET, f"{host}:{port} resets connections")
        listening = self._listening.get((address, port))
        if listening is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens at {host}:{port}")
        self._last_port += 1
        here = ("10.255.0.1", self._last_port)
        near = End(
            link=link,
            context=contextvars.copy_context(),
            latency_s=self._latency_s,
            here=here,
            there=(host, port),
        )
        far = End(link=link, context=listening.context, latency_s=self._latency_s, here=(address, port), there=here)
        near.join(far)
        link.connections[near] = None
        protocol = factory()
        near.begin(protocol)
        accept = listening.factory
        asyncio.get_running_loop().call_soon(lambda: far.begin(accept()), context=listening.context)
        return near, protocol

    def listen(self, factory: Factory, host: str, port: int) -> "Server":
        if (host, port) in self._listening:
            raise OSError(errno.EADDRINUSE, f"somebody listens at {host}:{port}")
        self._listening[host, port] = _Listening(factory=factory, context=contextvars.copy_context())
        return Server(lambda: self._listening.pop((host, port)))

    def _latency_s(self) -> float:
        return self._chance.uniform(_LEAST_S, _MOST_S)


class Server(asyncio.AbstractServer):
    """Listens from the beginning. `end` ends that."""

    def __init__(self, end: Callable[[], object]) -> None:
        self._end = end
        self._is_serving = True

    def close(self) -> None:
        if self._is_serving:
            self._is_serving = False
            self._end()

    async def wait_closed(self) -> None:
        """Its connections are their protocols'."""

    def is_serving(self) -> bool:
        return self._is_serving

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def start_serving(self) -> None:
        assert self._is_serving, "a closed one does not open again"

    async def serve_forever(self) -> None:
        raise NotImplementedError("nodes serve by themselves")
