"""Faults of topics ask what an operator asks, and one that changes nothing is skipped, not failed."""

from collections.abc import Mapping
from typing import Any, Literal

import pytest

from faults.catalogue import make
from harness.errors import HarnessError, UsageError
from harness.ports.faults import Fault, NothingToStrike, Struck
from tests.faults.diary import Diary

OF_TOPICS = {"preferred-election", "unclean-election", "reconfigure"}


class Operated(Diary):
    """Answers an election with `error`; does not answer at all where it is None."""

    error: int | None = 0

    async def set_topic_config(self, topic: str, settings: Mapping[str, str]) -> None:
        if self.error is None:
            raise HarnessError("no broker answers")
        self.deeds.append(f"{topic} {dict(settings)}")

    async def elect(self, topic: str, partition: int, *, kind: Literal["preferred", "unclean"]) -> int:
        if self.error is None:
            raise HarnessError("no broker answers")
        self.deeds.append(f"elect {kind} {topic}-{partition}")
        return self.error


def begun(kind: str, **options: Any) -> tuple[Fault, Struck]:
    fault, _ = make(kind, options)
    return fault, Struck(nodes=(), topics=("orders", "other"))


@pytest.mark.parametrize("error", [0, 84])
@pytest.mark.parametrize("asked", ["preferred", "unclean"])
async def test_an_election_is_asked_for_and_over_at_once(asked: str, error: int) -> None:
    cluster = Operated()
    cluster.error = error
    fault, struck = begun(f"{asked}-election", partition=2)

    assert (await fault.begin(cluster, struck)).sentence.startswith(f"{asked} election of orders/2: ")
    assert fault.lasts_s == 0.0
    assert cluster.deeds == [f"elect {asked} orders-2"]


@pytest.mark.parametrize("error", [80, None])
@pytest.mark.parametrize("asked", ["preferred", "unclean"])
async def test_an_election_that_elects_nobody_has_nothing_to_strike(asked: str, error: int | None) -> None:
    cluster = Operated()
    cluster.error = error
    fault, struck = begun(f"{asked}-election", topic="other")

    with pytest.raises(NothingToStrike):
        await fault.begin(cluster, struck)


async def test_other_settings_are_in_force_until_those_of_afterwards_are_set() -> None:
    cluster = Operated()
    one, two = {"min.insync.replicas": 1}, {"min.insync.replicas": 2}
    fault, struck = begun("reconfigure", settings=one, afterwards=two)

    await fault.begin(cluster, struck)
    await fault.end(cluster, struck)

    assert cluster.deeds == ["orders {'min.insync.replicas': '1'}", "orders {'min.insync.replicas': '2'}"]


async def test_settings_that_nobody_takes_have_nothing_to_strike() -> None:
    cluster = Operated()
    cluster.error = None
    fault, struck = begun("reconfigure", settings={"a": 1}, afterwards={"a": 2})

    with pytest.raises(NothingToStrike):
        await fault.begin(cluster, struck)


def test_settings_without_those_of_afterwards_are_refused() -> None:
    with pytest.raises(UsageError, match="give both"):
        make("reconfigure", {"settings": {"a": 1}})
