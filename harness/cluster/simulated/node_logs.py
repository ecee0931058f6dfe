"""What the nodes log goes to the files where their processes would have written it, with the world's time.

What belongs to no machine, or to one that has no log (the load's), goes to stderr, which is the run's harness.log.
"""

import contextlib
import logging
import time
from collections.abc import Iterator

from harness.cluster.simulated.machines import machine_of
from harness.host.printable import LogLines

_LOGGED = ("reference_impl", "asyncio")  # by the nodes


class _Lines(logging.Formatter):
    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__(fmt="%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", datefmt="%Y-%m-%dT%H:%M:%S")


class _ByMachine(logging.Handler):
    """Files are opened for each record: a node logs little, and may be wiped meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_Lines())
        self._own = logging.StreamHandler()
        self._own.setFormatter(UtcLines())

    def emit(self, record: logging.LogRecord) -> None:
        machine = machine_of()
        if machine is None or machine.log is None:
            self._own.handle(record)
        else:
            with machine.log.open("a", encoding="utf-8") as log:
                log.write(f"{self.format(record)}\n")


class UtcLines(LogLines):
    """Of harness.log, with the world's time wherever it is made."""

    converter = staticmethod(time.gmtime)


@contextlib.contextmanager
def nodes_log() -> Iterator[None]:
    handler = _ByMachine()
    loggers = [logging.getLogger(name) for name in _LOGGED]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate
