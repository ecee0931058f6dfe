"""JUnit XML: the one way in which it is written, whatever the cases are.

A case is failed, skipped with a reason, or passed; an error is a case that could not be done. Control characters of
names and messages are shown as codes: no XML may hold them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from xml.etree import ElementTree

from harness.errors import HarnessError
from harness.host.printable import printable, visible


class Outcome(Enum):
    """What JUnit calls each; a case that passed has no element."""

    PASSED = ""
    FAILED = "failure"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, kw_only=True)
class Case:
    """message: a line; text: more of it."""

    group: str
    name: str
    outcome: Outcome
    duration_s: float
    message: str = ""
    text: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)


def write_junit(cases: Sequence[Case], path: Path, *, suite: str = "kafka-chaos") -> None:
    """Raises HarnessError where it cannot be written."""
    try:
        path.write_bytes(junit_of(cases, suite=suite))
    except OSError as error:
        raise HarnessError(f"--junit {path} cannot be written: {error.strerror}") from error


def junit_of(cases: Sequence[Case], *, suite: str = "kafka-chaos") -> bytes:
    counts = {outcome: sum(case.outcome is outcome for case in cases) for outcome in Outcome}
    root = ElementTree.Element(
        "testsuite",
        name=printable(suite),
        tests=str(len(cases)),
        failures=str(counts[Outcome.FAILED]),
        errors=str(counts[Outcome.ERROR]),
        skipped=str(counts[Outcome.SKIPPED]),
        time=f"{sum(case.duration_s for case in cases):.3f}",
    )
    for case in cases:
        made = ElementTree.SubElement(
            root, "testcase", classname=printable(case.group), name=printable(case.name), time=f"{case.duration_s:.3f}"
        )
        if case.properties:
            properties = ElementTree.SubElement(made, "properties")
            for name, value in case.properties.items():
                ElementTree.SubElement(properties, "property", name=printable(name), value=printable(value))
        if case.outcome is not Outcome.PASSED:
            element = ElementTree.SubElement(made, case.outcome.value, message=printable(case.message))
            element.text = visible(case.text) or None
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written
