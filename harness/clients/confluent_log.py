"""Extracts librdkafka's events from its debug log, because it has no callback for an attempt that it will repeat.

poll() delivers the log before the delivery reports of the same records. Only known lines are used, identified by
facility and form, and converted to typed events at once; nothing else reads them. Each failed attempt at a batch is one
`MSGSET` line.
"""

import logging
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import confluent_kafka

from harness.clients.client_log import ClientLog
from harness.clients.outcomes import library_error_of
from harness.ports.clients import Kind

DEBUG = "msg,broker"  # the debug contexts whose lines are used
TELLS_ATTEMPTS = confluent_kafka.libversion()[0].startswith("2.")  # the client's name in these lines
# FACILITY [client] [thrd:...]: host:port/node: what
_LINE = re.compile(
    r"(?P<facility>MSGSET|FAIL|STATE|TOPBRK) \[[^]]*\] \[thrd:[^]]*\]: \S+/(?P<node>\d+): (?P<what>.*)", re.S
)
_ATTEMPT = re.compile(
    r"(?P<topic>\S+) \[(?P<part>\d+)\]: MessageSet with .* encountered error: (?P<error>.*) \(actions [^()]*\)"
)
_LOST = re.compile(r".*\((?P<name>_[A-Z_]+)\)$", re.S)
_JOINED = re.compile(r"Topic (?P<topic>\S+) \[(?P<part>\d+)\]: joining broker")
_UP = " -> UP"
_OWN_DOING = frozenset({"_DESTROY", "_DESTROY_BROKER"})  # a connection that it closes because nobody needs it
_IN_VAIN = "_TIMED_OUT"


def logger_of(log: ClientLog) -> logging.Logger:
    """The `logger` for librdkafka: one that nobody else uses."""
    logger = logging.Logger("librdkafka", logging.DEBUG)
    logger.propagate = False
    logger.addHandler(_Reader(log))
    return logger


class _Reader(logging.Handler):
    def __init__(self, log: ClientLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        line = _LINE.match(record.getMessage())
        if line is None:
            return
        node, what = int(line["node"]), line["what"]
        match line["facility"]:
            case "MSGSET":
                self._attempt(node, what)
            case "FAIL" if (lost := _LOST.match(what)) and lost["name"] not in _OWN_DOING:
                kind: Kind = "timeout" if lost["name"] == _IN_VAIN else "disconnect"
                self._log.connection(kind, node, _errors().get(lost["name"]))
            case "STATE" if what.endswith(_UP):
                self._log.connection("connect", node)
            case "TOPBRK" if joined := _JOINED.match(what):
                self._log.leaders([(joined["topic"], int(joined["part"]), node, None)])

    def _attempt(self, node: int, what: str) -> None:
        """An error of unknown wording leaves the outcome of the attempt unknown."""
        attempt = _ATTEMPT.match(what)
        if attempt is not None:
            error = _errors().get(attempt["error"], confluent_kafka.KafkaError(confluent_kafka.KafkaError._FAIL))
            self._log.failed(attempt["topic"], int(attempt["part"]), error, node=node)


@cache
def _errors() -> Mapping[str, Any]:
    """librdkafka's and Kafka's errors, by name and by the text in librdkafka's log."""
    numbers = {getattr(confluent_kafka.KafkaError, name) for name in dir(confluent_kafka.KafkaError)}
    known = [confluent_kafka.KafkaError(number) for number in sorted(n for n in numbers if isinstance(n, int))]
    return {library_error_of(error).name: error for error in known} | {error.str(): error for error in known}
