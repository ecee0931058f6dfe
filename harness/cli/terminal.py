"""The only way to the screen (ruff holds it): a text is a text there, and style is ours alone.

No square bracket and no colon of a text is markup; what could rewrite or reorder the screen is shown as its code.
"""

import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from harness.printable import printable


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Rich's own way would end the process, with the exit code of a violation."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class Terminal:
    """Lines on standard output, or aside on standard error. What nobody takes ends no run: see `lost`."""

    def __init__(self, *, aside: bool = False) -> None:
        self._aside = aside
        self._console = _Console(stderr=aside, highlight=False, soft_wrap=True, markup=False, emoji=False)
        self._stands = False  # a line that is rewritten
        self.lost = ""  # why something that was said has not been written; empty too where the reader has left

    @property
    def is_terminal(self) -> bool:
        return self._console.is_terminal

    @property
    def width(self) -> int:
        """In characters; 0 where the output is no terminal and lines may be of any length."""
        return shutil.get_terminal_size().columns if self.is_terminal or "COLUMNS" in os.environ else 0

    def say(self, text: object = "", *, style: str = "", then: object = "") -> None:
        """A line: `text` in our style, `then` without."""
        with self._taken():
            if self._stands:
                self._rewrite("")
                self._stands = False
            self._console.print(Text.assemble((self._writable(text), style), self._writable(then)))

    def rewrite(self, line: str) -> None:
        """In place of the line that stands there; what is said next takes its place."""
        with self._taken():
            self._rewrite(self._writable(line))
            self._stands = True

    def keep(self) -> None:
        """The line that was rewritten last stays."""
        if self._stands:
            self._stands = False
            self.say()

    @staticmethod
    def _rewrite(line: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        sys.stdout.write(f"\r{line[:width]:<{width}}" if line else f"\r{'':<{width}}\r")
        sys.stdout.flush()

    def lose(self, error: OSError) -> None:
        """From now on nothing more is written: whoever read it has left, or its disk is full."""
        self.lost = self.lost or ("" if error.errno == errno.EPIPE else str(error.strerror))
        stream = sys.stderr if self._aside else sys.stdout
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)

    @contextlib.contextmanager
    def _taken(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.lose(error)

    def _writable(self, text: object) -> str:
        """What the terminal's encoding lacks is shown as its code too."""
        encoding = self._console.encoding
        return printable(text).encode(encoding, "backslashreplace").decode(encoding)
