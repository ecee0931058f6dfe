"""A version is named in full, by a prefix, or by another member of its line; any other name is an error."""

from pathlib import Path

import pytest

from harness.cluster.brokers.kafka_versions import KAFKA_VERSIONS, resolve_version
from harness.errors import UsageError


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("4", "4.3.1"),
        ("4.3", "4.3.1"),
        ("4.1", "4.1.2"),
        ("3", "3.9.1"),
        ("2.8", "2.8.2"),
        ("1.1.1", "1.1.1"),
        ("0.10", "0.10.2.2"),
        ("0.10.2", "0.10.2.2"),
        ("0.9", "0.9.0.1"),
        (" 4.3.1 ", "4.3.1"),
    ],
)
def test_a_beginning_names_the_newest_that_was_tried(text: str, version: str) -> None:
    assert resolve_version(text).version == version


@pytest.mark.parametrize(
    ("text", "like"),
    [("4.2.0", "4.3.1"), ("3.8.1", "3.9.1"), ("2.7.0", "2.8.2"), ("0.10.0.1", "0.10.2.2"), ("4.4.0-SNAPSHOT", "4.3.1")],
)
def test_another_version_of_a_known_line_has_that_lines_recipe(text: str, like: str) -> None:
    found, row = resolve_version(text), resolve_version(like)

    assert found.version == text
    assert (found.artifact, found.modes, found.extra) == (row.artifact, row.modes, row.extra)
    assert f"{row.artifact}-{text}.jar" in found.needed_jars()


@pytest.mark.parametrize("text", ["", "5", "4.2", "5.0.0", "0.8.2.2", "0.10.3", "four", "4.3.1.1", "43", "../4.3.1"])
def test_an_unknown_version_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not known; known are 4\.3\.1, .*0\.9\.0\.1") as caught:
        resolve_version(text)
    assert "\n" not in str(caught.value)


def test_every_version_that_needs_zookeeper_can_start_it() -> None:
    for row in KAFKA_VERSIONS:
        assert bool(row.zookeeper_main) == ("zookeeper" in row.modes)


def test_every_version_says_how_its_logging_is_configured() -> None:
    assert resolve_version("4").log_option(Path("/x/log")) == "-Dlog4j2.configurationFile=/x/log"
    assert resolve_version("0.9").log_option(Path("/x/log")) == "-Dlog4j.configuration=file:/x/log"
