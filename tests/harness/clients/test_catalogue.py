"""Client libraries by name: imported when used, told when missing, and their limits said before a run."""

import importlib

import pytest

from harness.clients import catalogue
from harness.errors import UsageError
from harness.ports.load import WorkloadSpec
from harness.preflight.looking import ready


def without(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where the extra was not installed."""

    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {library!r}")

    monkeypatch.setattr(importlib, "import_module", missing)


@pytest.mark.parametrize("name", catalogue.CLIENTS)
def test_every_library_makes_a_client_without_touching_the_network(name: str) -> None:
    client = catalogue.CLIENTS[name](bootstrap="127.0.0.1:1", settings=WorkloadSpec())

    assert hasattr(client, "send")


def test_a_missing_library_is_reported_with_what_to_install_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    without("aiokafka", monkeypatch)

    with pytest.raises(UsageError, match=r"client 'aiokafka' needs: pip install 'kafka-chaos\[clients\]'") as caught:
        ready("no-faults", overrides=["workload.client=aiokafka"])
    assert "\n" not in str(caught.value)


def test_an_unknown_library_is_reported_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="unknown client 'confluent'; did you mean 'confluent-kafka'"):
        ready("no-faults", overrides=["workload.client=confluent"])


def test_what_a_library_cannot_do_is_one_line_and_part_of_the_environment() -> None:
    settings = WorkloadSpec(client="aiokafka", retries=3)

    line = catalogue.limits(settings)

    assert line.startswith("aiokafka: ")
    assert "retries = 3" in line
    assert "\n" not in line
    reported = catalogue.described(settings)
    assert reported["client"].startswith("aiokafka 0.")
    assert reported["client limits"] == line


@pytest.mark.parametrize("name", ["kafka-python", "confluent-kafka"])
def test_a_library_that_can_do_all_of_it_says_nothing(name: str) -> None:
    settings = WorkloadSpec(client=name)

    assert catalogue.limits(settings) == ""
    assert catalogue.described(settings).keys() == {"client"}


def test_for_brokers_without_api_versions_there_are_only_libraries_that_take_it_as_a_setting() -> None:
    makers = catalogue.for_silent_brokers((0, 9, 0, 1))

    assert set(makers) == {"kafka-python"}
    assert hasattr(makers["kafka-python"](bootstrap="127.0.0.1:1", settings=WorkloadSpec()), "send")
