"""The fixtures: `kafka_chaos_cluster`, and `chaos` on it.

How long a cluster lives is the ini option kafka_chaos_scope: function (the default, so that topics may have one name in
every test), module or session. A marker @pytest.mark.kafka_chaos(system=..., brokers=..., settings={...}) on the test,
or on the module of a cluster that lives longer, chooses another cluster.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from kafka_chaos_pytest.chaos import Chaos
from kafka_chaos_pytest.cluster import ChaosCluster

SCOPES = ("function", "module", "session")
_MARKED = ("system", "brokers", "settings")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka-chaos")
    group.addoption("--kafka-chaos", metavar="COMMAND", default="", help="The command, if not `kafka-chaos`.")
    group.addoption("--kafka-chaos-system", metavar="SYSTEM", default="", help="reference, or kafka:VERSION.")
    parser.addini("kafka_chaos_command", "The command, if not `kafka-chaos`.", default="")
    parser.addini("kafka_chaos_system", "reference (the default), or kafka:VERSION.", default="reference")
    parser.addini("kafka_chaos_brokers", "How many brokers; 3 if not said.", default="3")
    parser.addini("kafka_chaos_runs", "Where recordings are kept, below the root folder.", default="runs")
    parser.addini("kafka_chaos_scope", "How long a cluster lives: function, module or session.", default="function")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "kafka_chaos(system, brokers, settings): which cluster the fixture kafka_chaos_cluster starts"
    )
    if config.getini("kafka_chaos_scope") not in SCOPES:
        raise pytest.UsageError(f"kafka_chaos_scope is one of {', '.join(SCOPES)}")
    if not str(config.getini("kafka_chaos_brokers")).isdigit():
        raise pytest.UsageError("kafka_chaos_brokers is a whole number")


def _scope(fixture_name: str, config: pytest.Config) -> Literal["function", "module", "session"]:
    return cast(Literal["function", "module", "session"], config.getini("kafka_chaos_scope"))


@pytest.fixture(scope=_scope)
def kafka_chaos_cluster(request: pytest.FixtureRequest) -> Iterator[ChaosCluster]:
    """A running cluster: `bootstrap`, `state()`, `create_topic(...)`."""
    config = request.config
    marker = request.node.get_closest_marker("kafka_chaos")
    marked: dict[str, Any] = dict(marker.kwargs) if marker is not None else {}
    if unknown := marked.keys() - set(_MARKED):
        raise pytest.UsageError(f"the marker kafka_chaos takes {', '.join(_MARKED)}, not {', '.join(sorted(unknown))}")
    chosen = {
        "system": config.getoption("--kafka-chaos-system") or config.getini("kafka_chaos_system"),
        "brokers": int(config.getini("kafka_chaos_brokers")),
        **marked,
    }
    with ChaosCluster(
        command=config.getoption("--kafka-chaos") or config.getini("kafka_chaos_command"),
        runs=Path(config.rootpath) / config.getini("kafka_chaos_runs"),
        **chosen,
    ) as cluster:
        yield cluster


@pytest.fixture
def chaos(kafka_chaos_cluster: ChaosCluster) -> Iterator[Chaos]:
    """Faults and recordings; whatever is still in force at the end of the test is healed."""
    made = Chaos(kafka_chaos_cluster)
    yield made
    made.heal()
