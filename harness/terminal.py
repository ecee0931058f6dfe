"""The only way to the screen (ruff holds it): a text is a text there, and style is ours alone.

No square bracket and no colon of a text is markup; what could rewrite or reorder the screen is shown as its code.
"""

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.printable import printable


class Terminal:
    """Lines on standard output, or aside on standard error."""

    def __init__(self, *, aside: bool = False) -> None:
        self._console = Console(stderr=aside, highlight=False, soft_wrap=True, markup=False, emoji=False)

    @property
    def is_terminal(self) -> bool:
        return self._console.is_terminal

    def say(self, text: object = "", *, style: str = "", then: object = "") -> None:
        """A line: `text` in our style, `then` without."""
        self._console.print(Text.assemble((self._writable(text), style), self._writable(then)))

    def rows(self, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        table = Table(*heads)
        for row in rows:
            table.add_row(*(Text(self._writable(cell)) for cell in row))
        self._console.print(table)

    def rewrite(self, line: str, width: int) -> None:
        """In place of the line that stands there."""
        sys.stdout.write(f"\r{self._writable(line)[:width]:<{width}}")
        sys.stdout.flush()

    def _writable(self, text: object) -> str:
        """What the terminal's encoding lacks is shown as its code too."""
        encoding = self._console.encoding
        return printable(text).encode(encoding, "backslashreplace").decode(encoding)
