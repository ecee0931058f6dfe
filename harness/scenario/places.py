"""A scenario's file while it is read: the line, or the option, that set a value, so that an error can name it.

A line is searched only on request: searching takes longer than reading the file. Reading continues after an error, so
that all errors are reported at once.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from harness.errors import Place, Problem, Problems, UsageError

SECURITY_SECTION = "attached.security"
_HEADER = re.compile(r"\s*\[\[?\s*([\w.\-]+)\s*\]?\]")


class Override(str):
    """KEY=VALUE, and the option that the user gave; by default --set."""

    __slots__ = ("option",)
    option: str

    def __new__(cls, text: str, option: str = "") -> "Override":
        made = super().__new__(cls, text)
        key = text.partition("=")[0]
        shown = key if key.strip().startswith(SECURITY_SECTION) else text  # it may be a secret that belongs elsewhere
        made.option = option or f"--set {shown}"
        return made

    @classmethod
    def of(cls, text: str) -> "Override":
        return text if isinstance(text, cls) else cls(text)


@dataclass(frozen=True, kw_only=True)
class OverriddenKey:
    """What an override set: a key of a section or of one topic; no key: the whole section."""

    section: str
    topic: str = ""
    key: str = ""


@dataclass(kw_only=True)
class Places:
    """The places of one scenario. `overridden`: values set by options, so no line of the file applies to them."""

    text: str = ""
    file: str = ""
    overridden: dict[OverriddenKey, str] = field(default_factory=dict)
    faults: Sequence[int] = ()  # for each fault that is for this system: its index among the file's [[faults]]

    def __post_init__(self) -> None:
        self._lines = self.text.splitlines()
        # All at once: a file may have very many sections, and each may be requested.
        self._headers: defaultdict[str, list[int]] = defaultdict(list)
        for number, line in enumerate(self._lines, 1):
            if header := _HEADER.match(line):
                self._headers[header[1]].append(number)

    def line(self, number: int) -> Place:
        return Place(file=self.file, line=number)

    def section(self, section: str, index: int = 0) -> Place:
        """The place of the header of the index-th [section] or [[section]]."""
        return self._option(OverriddenKey(section=section)) or self.line(self._header_line(section, index))

    def key(self, section: str, key: str, *, index: int = 0, topic: str = "") -> Place:
        """The place of a key of the index-th such section; `topic`: the topic's name for a section of [[topics]]."""
        if section == SECURITY_SECTION:
            return self.security(key)
        option = self._option(OverriddenKey(section=section, topic=topic, key=key)) or self._option(
            OverriddenKey(section=section)
        )
        return option or self.line(self._key_line(section, index, key))

    def security(self, key: str = "") -> Place:
        """The place of a key of [attached.security], which may also stand in [attached] as an inline table; without a
        key that of the table."""
        option = self._option(OverriddenKey(section="attached", key="security"))
        if option is not None:
            return option
        if SECURITY_SECTION not in self._headers:
            return self.line(self._key_line("attached", 0, "security"))
        header = self._header_line(SECURITY_SECTION, 0)
        return self.line(self._key_from(header, SECURITY_SECTION, key) if key else header)

    def setting(self, section: str, setting: str, *, index: int = 0, topic: str = "") -> Place:
        """The place of one of the section's `settings`."""
        option = self._option(OverriddenKey(section=section, topic=topic, key="settings"))
        return option or self.key(section, setting, index=index, topic=topic)

    def fault(self, number: int, key: str) -> Place:
        """The place of a key of the scenario's fault `number` (from 0)."""
        return self.key("faults", key, index=self.faults[number] if number < len(self.faults) else number)

    def step(self, line: int, kind: str) -> Place:
        """The place of a step's act or condition; `line` is the line of its header."""
        return self._option(OverriddenKey(section="steps")) or self.line(self._key_from(line, "steps", kind))

    def _option(self, key: OverriddenKey) -> Place | None:
        option = self.overridden.get(key)
        return Place(option=option) if option is not None else None

    def _header_line(self, section: str, index: int) -> int:
        """The header's line; 1 if it is written in another form."""
        lines = self._headers.get(section, [])
        return lines[index] if index < len(lines) else 1

    def _key_line(self, section: str, index: int, key: str) -> int:
        """The key's line; the header's line if the key is not found, because a variant, [[on]], may have added it."""
        return self._key_from(self._header_line(section, index), section, key)

    def _key_from(self, start: int, section: str, key: str) -> int:
        """A key that is quoted goes before one that merely ends so, as `metadata.log.dir` does in `log.dir`."""
        quoted = rf'["\']{re.escape(key)}["\']\s*='
        anywhere = rf'(^|[\s{{,.])"?{re.escape(key)}"?\s*[=.]'
        for pattern in map(re.compile, (quoted, anywhere)):
            for number in range(start, len(self._lines) + 1):
                line = self._lines[number - 1]
                if number > start and re.match(r"\s*\[", line) and not line.lstrip().startswith(f"[{section}."):
                    break
                if pattern.search(line.split("#", 1)[0]):
                    return number
        return start


class Source:
    """A file while it is read: the places in it, and all its errors."""

    def __init__(self, text: str, file: str) -> None:
        self.places = Places(text=text, file=file)
        self.problems: list[Problem] = []

    def wrong(self, place: Place, message: str) -> None:
        self.problems.append(Problem(place=place, what=message))

    @contextmanager
    def telling(self, place: Callable[[], Place]) -> Iterator[None]:
        """Turns an error inside the block into a problem at `place`, which is searched only then; reading continues."""
        try:
            yield
        except Problems as error:
            self.problems.extend(error.problems)
        except (UsageError, ValueError) as error:
            self.wrong(place(), str(error))
