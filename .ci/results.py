"""What the tests of a CI run came to, from pytest's JUnit files: `may-try-again FILE`, `tell FILE...`.

A skipped test means that something prepared was not exercised, and fails the run. At most TRIED_AGAIN failed tests may
run once more: more than these are no accident of a busy machine.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

TRIED_AGAIN = 3


def _counts(path: Path) -> dict[str, int]:
    suites = list(ElementTree.parse(path).getroot().iter("testsuite"))
    keys = ("tests", "skipped", "failures", "errors")
    return {key: sum(int(suite.get(key, 0)) for suite in suites) for key in keys}


def _failed(path: Path) -> Iterator[str]:
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            yield f"{case.get('classname')}::{case.get('name')}"


def may_try_again(path: Path) -> str | None:
    """Why not; None: they may."""
    if not path.exists():
        return "ci: the tests did not run"
    failed = sorted(set(_failed(path)))
    if not 0 < len(failed) <= TRIED_AGAIN:
        return f"ci: {len(failed)} tests failed; only up to {TRIED_AGAIN} are tried again"
    return None


def tell(paths: Sequence[Path]) -> str | None:
    """Prints the closing line. Returns why the run is not good; None: it is. The last try of a test counts."""
    first, *again = sorted(paths, key=lambda path: path.name != "junit.xml")
    counts = _counts(first)
    if counts["skipped"] or not counts["tests"]:
        return f"CI prepares every capability, so nothing may be skipped: {counts}"
    failed = set(_failed(first))
    for path in again:
        second = _counts(path)
        if second["skipped"] or second["tests"] < len(failed):
            return f"ci: not everything that failed was tried again: {second}"
        print("ci: failed beside other tests, and tried again alone:", *sorted(failed), sep="\n  ")
        failed = set(_failed(path))
    print(f"{counts['tests'] - len(failed)} passed, {len(failed)} failed")
    return f"ci: failed: {', '.join(sorted(failed))}" if failed else None


if __name__ == "__main__":
    command, *files = sys.argv[1:]
    paths = [Path(file) for file in files]
    sys.exit(may_try_again(paths[0]) if command == "may-try-again" else tell(paths))
