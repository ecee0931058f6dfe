"""`python -m harness` is the command `kafka-chaos`; workers are started this way.

A check's JVM starts before the rest of the program is read: both take as long. A worker reads only what a client needs.
Who interrupts while it is read has interrupted the command, and gets no traceback.
"""

import atexit
import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

_HANDLER = signal.getsignal(signal.SIGINT)
if _HANDLER is signal.default_int_handler:  # not where whoever started us has it ignored
    signal.signal(signal.SIGINT, signal.SIG_DFL)
from harness.checks.spark.jvm import end_ahead, start_ahead  # noqa: E402

signal.signal(signal.SIGINT, _HANDLER)
_NO_JVM = {"--help", "--master", "--memory-mb"}  # nothing is checked, or perhaps elsewhere, or by a JVM of another size
_HIDDEN = {
    "worker": "harness.cli.client_process",
    "simulate": "harness.cli.simulated_run",
    "forked-runs": "harness.cli.forked_runs",
}
_JEPSEN = "jepsen"  # histories that need none


def command() -> NoReturn:
    """`main` in a process of its own."""
    try:
        main()
    except SystemExit as ended:
        leave(ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 4)
    except KeyboardInterrupt:
        leave(128 + signal.SIGINT)
    leave(0)


def leave(code: int) -> NoReturn:
    """Ends the process as the interpreter does, and without the destructors of native libraries.

    One of them aborts a process now and then ("terminate called without an active exception"), when all is done and
    its exit code is all that is left to say.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # also ends the idle threads of executors
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody listens any more: exits.py has seen to it
            stream.flush()
    os._exit(code)


def main() -> None:
    try:
        if (work := hidden(sys.argv[1:])) is not None:
            _do(work, sys.argv[2])
            return
        if will_check(sys.argv[1:]):
            start_ahead()
        from harness.cli.main import main as obey

        obey()
    finally:
        end_ahead()


def hidden(arguments: Sequence[str]) -> str | None:
    """The module whose `work` does it, if only the harness starts such a process. It imports what it needs alone."""
    if len(arguments) != 2 or arguments[1].startswith("-"):
        return None
    return _HIDDEN.get(arguments[0])


def _do(module: str, subject: str) -> None:
    try:
        importlib.import_module(module).work(subject)
    except BaseException as error:  # noqa: BLE001  # reported as every command reports it
        from harness.cli.exits import code_for, finished

        sys.exit(finished(code_for(error)))


def will_check(arguments: Sequence[str]) -> bool:
    options = {word.partition("=")[0] for word in arguments}
    jepsen = _JEPSEN in arguments or f"--format={_JEPSEN}" in arguments
    return len(arguments) > 1 and arguments[0] == "check" and not jepsen and not _NO_JVM & options


if __name__ == "__main__":
    command()
