"""Numbers the strings of one journal; strings in stored pieces are forgotten and merged again at the end."""

from collections.abc import Sequence


class Strings:
    """Numbers strings in order of first occurrence since they were last forgotten; so a string may have several
    numbers."""

    def __init__(self, before: Sequence[str] = ()) -> None:
        self._before = before
        self._forgotten = len(before)
        self._fresh: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._fresh.setdefault(text, self._forgotten + len(self._fresh))

    def fresh(self) -> list[str]:
        return list(self._fresh)

    def forget(self) -> None:
        self._forgotten += len(self._fresh)
        self._fresh = {}

    def all(self) -> list[str]:
        """All strings by number."""
        assert self._forgotten == len(self._before), "some were forgotten"
        return [*self._before, *self._fresh]
