"""Two kinds of wrong, never mixed: something could not be done (ChaosError), or the application or the cluster did what
it must not do (Findings, an assertion)."""

from collections.abc import Mapping, Sequence
from typing import Any


class ChaosError(Exception):
    """A request that was refused or failed. code: of docs/control.md, or "start" for a cluster that did not begin."""

    def __init__(self, code: str, message: str, remedy: str = "") -> None:
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.code = code
        self.message = message
        self.remedy = remedy


class Findings(AssertionError):
    """What the harness found that the test does not allow. answer: of the request `check`, whole."""

    def __init__(self, found: Sequence[Mapping[str, Any]], answer: Mapping[str, Any]) -> None:
        self.found = tuple(found)
        self.answer = answer
        super().__init__("\n".join(_lines(found, answer)))


def _lines(found: Sequence[Mapping[str, Any]], answer: Mapping[str, Any]) -> list[str]:
    lines = [str(answer["sentence"])]
    for finding in found:
        lines.append(f"  {finding['finding']} {finding['class']}: {finding['check']}: {finding['sentence']}")
        if finding["cause"]:
            lines.append(f"     cause: {finding['cause']}")
        if finding["values"]:
            more = " ..." if finding["count"] and finding["count"] > len(finding["values"]) else ""
            lines.append(f"     values: {', '.join(finding['values'])}{more}")
    lines.append(f"  page: {answer['page'] or answer['run']}")
    return lines
