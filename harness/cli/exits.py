"""How a command ends: one line for each error, and a fixed meaning for each exit code.

harness/verdict.py defines 0, 1, 3 and 4 for verdicts; 1 is a violation and nothing else. 2: wrong usage. 4: it could
not be done, for a known reason or an unforeseen one. 5: only an invariant of a simulated run was broken. 130:
interrupted. An unforeseen error is one line, too; it names a file with the traceback; KAFKA_CHAOS_DEBUG=1 shows the
traceback.
"""

import contextlib
import errno
import logging
import os
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from harness.cli.options import aside, terminal
from harness.errors import INTERRUPTED, HarnessError, Problems, UsageError, end_at_once, in_short
from harness.host.printable import shortened, visible
from harness.host.user_folders import state_directory
from harness.verdict import Verdict

USAGE_ERROR = 2
DEBUG = "KAFKA_CHAOS_DEBUG"
_CANNOT = Verdict.ERROR.exit_code
_DETAILS = "last-error.txt"
_NAMED_WRONGLY = (errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR)
_OF_THE_MACHINE = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EIO,
)
_SHOWN = 200


@contextlib.contextmanager
def interrupted_at_once(remedy: str) -> Iterator[None]:
    """For judging, which has nothing to undo: Ctrl-C and SIGTERM end it with one line. The JVM ends with its input, and
    the next command sweeps what was for a while."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        end_at_once(f"interrupted while judging: {remedy}")

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def quiet_gateway() -> None:
    """Silences the log of Spark's gateway, whose errors are raised and reported like all others.

    The gateway would also log them with a traceback, even when the work is done and the JVM ends before all of its
    objects were released.
    """
    logger = logging.getLogger("py4j")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False


def code_for(error: BaseException) -> int:
    """Prints the error. Returns the exit code."""
    error = _one_of(error)
    if os.environ.get(DEBUG) and not isinstance(error, SystemExit):
        for line in _traceback(error).splitlines():
            aside.say(line)
    match error:
        case SystemExit():
            return _of_exit(error)
        case KeyboardInterrupt():
            return INTERRUPTED
        case Problems():
            for problem in error.problems:
                _say(str(problem))
            if len(error.problems) > 1:
                _say(f"{len(error.problems)} problems; nothing was started")
            return USAGE_ERROR
        case UsageError():
            return _error_line(str(error), USAGE_ERROR)
        case HarnessError():
            return _error_line(str(error), _CANNOT)
        case OSError() if error.errno in _NAMED_WRONGLY and error.filename is not None:
            return _error_line(f"{_file(error)}: {error.strerror}", USAGE_ERROR)
        case OSError() if error.errno in _OF_THE_MACHINE:
            where = f"{_file(error)}: " if error.filename is not None else ""
            return _error_line(f"{where}{error.strerror}", _CANNOT)
        case MemoryError():
            return _error_line("this machine's memory is not enough", _CANNOT)
    if type(error).__name__ == "NoArgsIsHelpError":
        for line in str(error).splitlines():
            terminal.say(line)
        return USAGE_ERROR
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # an error of the option parser
        return _error_line(error.format_message(), USAGE_ERROR)
    if type(error).__name__ == "Abort":  # the option parser raises it at the end of its input
        return INTERRUPTED
    return _unforeseen(error)


def finished(code: int) -> int:
    """The final exit code: `code`, or an error if the output could not be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            terminal.lose(error)
    if terminal.lost and code == 0:
        return _error_line(f"standard output cannot be written: {terminal.lost}", _CANNOT)
    return code


def _one_of(error: BaseException) -> BaseException:
    """The first of several errors; preferably one of the harness's own types."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [_one_of(each) for each in error.exceptions]
    return next((each for each in leaves if isinstance(each, HarnessError | OSError)), leaves[0])


def _of_exit(error: SystemExit) -> int:
    """The exit code of a SystemExit. The option parser exits with 1 for any broken pipe, not only our output's."""
    cause = error.__context__
    if isinstance(cause, OSError) and cause.errno == errno.EPIPE and error.code == 1:
        return 0 if _nobody_reads() else _unforeseen(cause)
    return error.code if isinstance(error.code, int) else 0 if error.code is None else _CANNOT


def _nobody_reads() -> bool:
    """Whether the broken pipe is our own output."""
    looked = select.poll()
    looked.register(1, 0)
    return any(events & (select.POLLERR | select.POLLNVAL) for _, events in looked.poll(0))


def _file(error: OSError) -> str:
    name = str(error.filename)
    return name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."


def _unforeseen(error: BaseException) -> int:
    where = _kept(_traceback(error))
    return _error_line(f"unforeseen, and a bug of kafka-chaos: {in_short(error)}; details: {where}", _CANNOT)


def _traceback(error: BaseException) -> str:
    return visible("".join(traceback.format_exception(error)))


def _kept(text: str) -> str:
    """Writes the details to a file. Returns where they are."""
    for folder in (state_directory, lambda: Path(tempfile.mkdtemp(prefix="kafka-chaos-"))):
        try:
            path = folder() / _DETAILS
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
        except (OSError, HarnessError, RuntimeError):
            continue
        return str(path)
    return f"run it again with {DEBUG}=1"


def _say(line: str) -> None:
    aside.say(shortened(f"kafka-chaos: {line}"))


def _error_line(line: str, code: int) -> int:
    _say(line)
    return code
