"""What every test may ask for, and what kind each is. One Spark session serves a whole run, once a test wants it."""

import os
import sys
import uuid
from collections import Counter
from collections.abc import Generator, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from harness import extensions
from tests.kinds import KINDS, Starts, group_of, kinds_of, rank

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from benchmarks.browser import Pipe
    from harness.checks.spark.jvm import Jvm

_ADAPTIVE = "spark.sql.adaptive.enabled"

# How long an example takes, or its making, says something of the machine and nothing of the code.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")
# Where time is cheap: pytest --hypothesis-profile nightly
settings.register_profile("nightly", settings.get_profile("tests"), max_examples=1_000)

for size in ("COLUMNS", "LINES"):  # of the terminal of whoever runs the tests: commands must not see it
    os.environ.pop(size, None)

# What is installed here beside kafka-chaos is the user's own: tests see what they install themselves.
PLACES_BEFORE = frozenset(Path(place) for place in sys.path)


def _of_a_test(entry: EntryPoint) -> bool:
    return entry.dist is None or Path(str(entry.dist.locate_file(""))) not in PLACES_BEFORE


def _entry_points_of_tests(*, group: str) -> list[EntryPoint]:
    return [entry for entry in entry_points(group=group) if _of_a_test(entry)]


vars(extensions)["entry_points"] = _entry_points_of_tests
STARTS = Starts()
STARTS.watch()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and getattr(config.option, "testrunuid", "") is None:
        config.option.testrunuid = uuid.uuid4().hex
    for kind, meaning in KINDS.items():
        config.addinivalue_line("markers", f"{kind}: {meaning}")


def kinds(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()} & KINDS.keys()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        place = item.path.relative_to(here) if item.path.is_relative_to(here) else item.path
        for kind in kinds_of(place, getattr(item, "fixturenames", ())):
            item.add_marker(kind)
    items.sort(key=lambda item: rank(kinds(item)))


@pytest.hookimpl(tryfirst=True)  # before xdist tells that this worker has collected
def pytest_collection_finish(session: pytest.Session) -> None:
    worker = getattr(session.config, "workerinput", None)
    if worker is not None:
        from tests.workers import write_groups

        groups = {item.nodeid: group_of(kinds(item)) for item in session.items}
        write_groups(worker["testrunuid"], {name: group for name, group in groups.items() if group is not None})


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    from tests.workers import FileByFile

    return FileByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    result = yield
    unsaid = STARTS.unsaid(kinds(item))
    if unsaid:
        pytest.fail("; ".join(unsaid), pytrace=False)
    return result


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """Plans do not adapt while they are executed, which for many small histories takes a quarter longer."""
    from harness.checks.spark.session import spark_session

    jvm = _jvm_with_kept_classes(tmp_path_factory.mktemp("spark") / "stderr")
    with spark_session(master="local[2]", jvm=jvm) as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        session.conf.set(_ADAPTIVE, "false")
        yield session


@pytest.fixture(scope="module")
def adaptive_spark(spark: "SparkSession") -> Iterator["SparkSession"]:
    """The same session with plans that adapt, as users have them."""
    spark.conf.set(_ADAPTIVE, "true")
    yield spark
    spark.conf.set(_ADAPTIVE, "false")


def _jvm_with_kept_classes(stderr_path: Path) -> "Jvm":
    """A run of the tests starts many."""
    from harness.checks.keeping_classes import keep_classes
    from harness.checks.spark.jvm import start_jvm_early

    jvm = start_jvm_early(stderr_path=stderr_path)
    if jvm.archive is not None:
        return jvm
    jvm.end()
    keep_classes()
    return start_jvm_early(stderr_path=stderr_path)


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A user whose files are everybody's, unless the program says otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What this machine lacks, in one line each, with what would bring it."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else str(report.longrepr)
        for report in terminalreporter.stats.get("skipped", [])
    )
    for reason, count in reasons.items():
        terminalreporter.write_line(f"{count} skipped: {reason}")


@pytest.fixture(scope="module")
def pipe() -> "Iterator[Pipe]":
    """A browser for all pages of a module."""
    from benchmarks.browser import browser, chromium

    program = chromium()
    if program is None:
        pytest.skip("no Chromium: apt-get install chromium, and the page is opened in it")
    with browser(program) as opened:
        yield opened
