"""The same for every Python client: does the named operations, and says of each in one line how it went."""

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping

RECORDS = 20
FIRST_TIME_MS = 1_700_000_000_000


def values() -> list[tuple[int, bytes]]:
    """(time, value) of each record."""
    return [(FIRST_TIME_MS + number, b"value %d" % number) for number in range(RECORDS)]


def run(operations: Callable[[str, str], Mapping[str, Callable[[], str]]]) -> None:
    """`operations` is given the bootstrap servers and the topic."""
    bootstrap, topic, limit_s, *wanted = sys.argv[1:]
    known = operations(bootstrap, topic)
    for name in wanted:
        begun = time.monotonic()
        outcome = "lacks\t" if name not in known else _outcome(known[name], float(limit_s))
        elapsed_s = f"{time.monotonic() - begun:.1f}"
        sys.stdout.write("\t".join((name, elapsed_s, outcome.replace("\n", " "))) + "\n")
    # What hangs must not keep the process.
    sys.stdout.flush()
    os._exit(0)


def _outcome(operation: Callable[[], str], limit_s: float) -> str:
    ended: list[str] = []

    def perform() -> None:
        try:
            ended.append(f"ok\t{operation()}")
        except Exception as error:  # noqa: BLE001 - whatever a library says is what is wanted
            ended.append(f"fails\t{type(error).__name__}: {error}")

    thread = threading.Thread(target=perform, daemon=True)
    thread.start()
    thread.join(limit_s)
    return ended[0] if ended else "hangs\t"
