"""Runs the families' queries, several at once: planning one uses one core, and most need little else.

The fused pass over the records goes first, since it takes longest; queries that depend on its result wait for it. For a
long history the queries run one at a time, each with all the memory.
"""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from harness.history.facts.extent import MANY_ROWS

_AT_ONCE_MAX = 4  # each may hold as much as one stage of one query does

Progress = Callable[[str], None]  # called when a query begins, with the name of the longest-running one
Answer = TypeVar("Answer")


class ConcurrentQueries:
    """`tell` may stop everything by raising: the error goes to the caller that waits for that query."""

    def __init__(self, pool: ThreadPoolExecutor, tell: Progress) -> None:
        self._pool = pool
        self._tell = tell
        self._at_work: list[str] = []
        self._lock = threading.Lock()

    def ask(self, name: str, question: Callable[[], Answer]) -> "Future[Answer]":
        return self._pool.submit(self._asked, name, question)

    def _asked(self, name: str, question: Callable[[], Answer]) -> Answer:
        with self._lock:
            self._at_work.append(name)
            longest = self._at_work[0]
        try:
            self._tell(longest)
            return question()
        finally:
            with self._lock:
                self._at_work.remove(name)


@contextmanager
def concurrent_queries(record_count: int, tell: Progress) -> Iterator[ConcurrentQueries]:
    """On an error, leaves when the running queries have ended; no other is begun."""
    at_once = 1 if record_count > MANY_ROWS else min(os.cpu_count() or 1, _AT_ONCE_MAX)
    with ThreadPoolExecutor(at_once, thread_name_prefix="question") as pool:
        try:
            yield ConcurrentQueries(pool, tell)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
