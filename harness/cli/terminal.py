"""The only module that writes to the screen (ruff enforces it). Text is printed literally; style is an argument.

Square brackets and colons in a text are not markup; characters that could rewrite or reorder the screen are shown as
codes.
"""

import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from harness.host.printable import printable


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Rich's own method would end the process, with the exit code of a violation."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class Terminal:
    """Lines on standard output, or with `aside` on standard error. A failed write does not end a run: see `lost`."""

    def __init__(self, *, aside: bool = False) -> None:
        self._aside = aside
        # Without a width it would believe COLUMNS=0, as some CIs set it, and print nothing at all.
        width = shutil.get_terminal_size().columns
        self._console = _Console(stderr=aside, width=width, highlight=False, soft_wrap=True, markup=False, emoji=False)
        self._stands = False  # whether a rewritable line is shown
        self.lost = ""  # why a line could not be written; stays empty if the reader has left

    @property
    def is_terminal(self) -> bool:
        return self._console.is_terminal

    @property
    def width(self) -> int:
        """In characters; 0 if the output is not a terminal and lines may have any length."""
        return shutil.get_terminal_size().columns if self.is_terminal or "COLUMNS" in os.environ else 0

    def say(self, text: object = "", *, style: str = "", then: object = "") -> None:
        """Prints a line: `text` with the style, `then` without."""
        with self._taken():
            if self._stands:
                self._rewrite("")
                self._stands = False
            self._console.print(Text.assemble((self._writable(text), style), self._writable(then)))

    def rewrite(self, line: str) -> None:
        """Replaces the current rewritable line; the next output replaces it in turn."""
        with self._taken():
            self._rewrite(self._writable(line))
            self._stands = True

    def keep(self) -> None:
        """Keeps the line that was rewritten last."""
        if self._stands:
            self._stands = False
            self.say()

    @staticmethod
    def _rewrite(line: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        sys.stdout.write(f"\r{line[:width]:<{width}}" if line else f"\r{'':<{width}}\r")
        sys.stdout.flush()

    def lose(self, error: OSError) -> None:
        """From now on nothing more is written: the reader has left, or the disk is full."""
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
        """The text with its code for each character that the terminal's encoding lacks."""
        encoding = self._console.encoding
        return printable(text).encode(encoding, "backslashreplace").decode(encoding)
