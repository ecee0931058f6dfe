"""The coordination service as a process: reads zoo.cfg, listens on a socket, ends cleanly on SIGTERM.

It uses the keys of ZooKeeper's configuration file that concern it and ignores all others, so one file serves both.
"""

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from reference_impl.coordination.connection import Connection
from reference_impl.coordination.database import Database
from reference_impl.coordination.server import CoordinationServer, SessionLimits
from reference_impl.coordination.transaction_log import CorruptTransactionLog, FileTransactionLog, TransactionLog

logger = logging.getLogger(__name__)

TICK_TIME_DEFAULT_MS = 3000
SERVICE_FAULT = 1
CONFIGURATION_FAULT = 2


class ConfigurationError(ValueError):
    """The configuration file lacks a required value; the message is one line with place and remedy."""


@dataclass(frozen=True, kw_only=True)
class CoordinationConfig:
    data_directory: Path
    port: int
    address: str = "127.0.0.1"
    session_timeout_min_ms: int = 2 * TICK_TIME_DEFAULT_MS
    session_timeout_max_ms: int = 20 * TICK_TIME_DEFAULT_MS
    force_sync: bool = False

    @classmethod
    def load(cls, path: Path) -> "CoordinationConfig":
        values: dict[str, str] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                key, _, value = line.partition("=")
                values[key.strip()] = value.strip()
        tick_ms = _number(values, "tickTime", path, TICK_TIME_DEFAULT_MS)
        return cls(
            data_directory=Path(_required(values, "dataDir", path)),
            port=_number(values, "clientPort", path),
            address=values.get("clientPortAddress", "127.0.0.1"),
            session_timeout_min_ms=_number(values, "minSessionTimeout", path, 2 * tick_ms),
            session_timeout_max_ms=_number(values, "maxSessionTimeout", path, 20 * tick_ms),
            force_sync=values.get("forceSync", "no").lower() in ("yes", "true"),
        )


def _required(values: Mapping[str, str], key: str, path: Path) -> str:
    if not values.get(key):
        raise ConfigurationError(f"{path}: {key} is missing; add a line {key}=...")
    return values[key]


def _number(values: Mapping[str, str], key: str, path: Path, default: int | None = None) -> int:
    if key not in values and default is not None:
        return default
    text = _required(values, key, path)
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(f"{path}: {key}={text} is not a whole number") from None


def system_wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class CoordinationService:
    """Recovers the state, listens, stops. Log and wall clock can be replaced; all other time is the running loop's."""

    def __init__(
        self,
        config: CoordinationConfig,
        *,
        log: TransactionLog | None = None,
        wall_clock_ms: Callable[[], int] = system_wall_clock_ms,
    ) -> None:
        self._config = config
        self._wall_clock_ms = wall_clock_ms
        self._database = Database(log or FileTransactionLog(config.data_directory, force_sync=config.force_sync))
        self._server: CoordinationServer | None = None
        self._listener: asyncio.Server | None = None

    @property
    def address(self) -> tuple[str, int]:
        """The listening address; with port 0 in the configuration, the port that the system assigned."""
        assert self._listener is not None, "not started"
        host, port = self._listener.sockets[0].getsockname()[:2]
        return host, port

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._database.recover(now=loop.time(), wall_clock_ms=self._wall_clock_ms())
        limits = SessionLimits(
            timeout_min_ms=self._config.session_timeout_min_ms, timeout_max_ms=self._config.session_timeout_max_ms
        )
        server = CoordinationServer(self._database, limits=limits, wall_clock_ms=self._wall_clock_ms)
        self._server = server
        self._listener = await loop.create_server(lambda: Connection(server), self._config.address, self._config.port)
        logger.info("listening, zxid 0x%x, %d sessions", self._database.zxid, len(self._database.sessions))

    async def stop(self) -> None:
        """Closes the log and all connections; sessions and their ephemeral znodes survive until the next start."""
        if self._listener is not None:
            self._listener.close()
        if self._server is not None:
            self._server.stop()
        self._database.close()

    async def failed(self) -> BaseException:
        """Returns when the service can no longer work, and never otherwise."""
        assert self._server is not None, "not started"
        return await self._server.failure


async def serve(config: CoordinationConfig) -> int:
    """Runs until SIGTERM or SIGINT (returns 0) or until the log cannot be written (returns 1)."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    service = CoordinationService(config)
    await service.start()
    waits = [asyncio.ensure_future(ended.wait()), asyncio.ensure_future(service.failed())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        return 0 if ended.is_set() else SERVICE_FAULT
    finally:
        for wait in waits:
            wait.cancel()
        await service.stop()


def run_from_config(path: str) -> int:
    """Runs `python -m reference_impl coordination --config PATH`; returns its exit code."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        return asyncio.run(serve(CoordinationConfig.load(Path(path))))
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        return CONFIGURATION_FAULT
    except (CorruptTransactionLog, OSError) as error:
        logger.critical("cannot start: %s", error)
        return SERVICE_FAULT
