"""consumer_groups: members poll and commit by hand, go back, leave, crash; all of it is in the journal, in order."""

from typing import Any

from harness.ports.clients import ClientUse
from harness.ports.cluster import TopicPartition
from tests.workloads.members import BATCH, ORDERS, Script, in_a_group
from workloads.produce_and_poll import ProduceAndPoll

PARTITIONS = [TopicPartition(topic="orders", partition=number) for number in range(2)]


async def consume(script: Script, **changes: Any) -> None:
    workload = in_a_group(**changes).make_worker(role="consumer", place=0, places=1, partitions=PARTITIONS)
    await script.act(workload)


def committed(script: Script) -> list[int | None]:
    return [event.offsets[ORDERS] for event, _ in script.notes.events if event.event == "committed"]


async def test_a_member_tells_what_it_was_given_and_commits_what_it_has_processed() -> None:
    script = Script(polls=3)

    await consume(script)

    assert script.notes.story == [
        "subscribe",
        *("poll", "assigned", "read 3", "fetched", "committed"),
        *("poll", "read 3", "committed"),
        *("poll", "read 3", "committed"),
        "revoked",
    ]
    assert committed(script) == [BATCH, 2 * BATCH, 3 * BATCH]
    assert script.uses == [ClientUse(role="consumer", group="readers", offset_reset="earliest")]


async def test_a_static_members_successors_have_its_name() -> None:
    script = Script(polls=1)
    settings = in_a_group(static_members=True, group_protocol="consumer")
    workload = settings.make_worker(role="consumer", place=2, places=3, partitions=PARTITIONS)

    await script.act(workload)

    assert {(use.group_instance_id, use.group_protocol) for use in script.uses if use} == {("readers-3", "consumer")}
    assert settings.facts.group_protocol == "consumer"


async def test_what_was_taken_away_in_a_poll_is_not_committed() -> None:
    script = Script(polls=2, fails=lambda what, number: what == "rebalance" and number == 2)

    await consume(script)

    assert committed(script) == [BATCH]


async def test_a_member_that_goes_back_reads_the_same_records_again() -> None:
    script = Script(polls=3)

    await consume(script, seek_share=1.0)

    assert committed(script) == []
    seeks = [event.offsets for event, _ in script.notes.events if event.event == "seek"]
    assert seeks == [{ORDERS: 0}] * 3


async def test_a_commit_that_was_refused_is_reported_and_does_not_end_the_member() -> None:
    script = Script(polls=3, fails=lambda what, number: what == "commit" and number == 1)

    await consume(script)

    assert [event.status for event, _ in script.notes.events if event.event == "committed"] == ["fail", "ok", "ok"]
    assert len(script.members) == 1


async def test_a_member_whose_poll_fails_is_replaced_by_one_that_starts_at_the_committed_offset() -> None:
    script = Script(polls=4, fails=lambda what, number: what == "poll" and number == 2)

    await consume(script)

    assert [member.ended for member in script.members] == ["left", "left"]
    assert "ConnectionError" in script.notes.story
    fetched = [event.offsets[ORDERS] for event, _ in script.notes.events if event.event == "fetched"]
    assert fetched == [None, BATCH]
    assert committed(script) == [BATCH, 2 * BATCH, 3 * BATCH]


async def test_a_member_that_cannot_subscribe_is_replaced() -> None:
    script = Script(polls=1, fails=lambda what, number: what == "subscribe" and number == 1)

    await consume(script)

    assert script.notes.story[:2] == ["subscribe: ConnectionError", "subscribe"]


async def test_members_come_and_go_and_a_crash_says_nothing_to_the_group() -> None:
    script = Script(polls=400)

    await consume(script, stay_s=0.001, crash_share=0.5)

    ended = [member.ended for member in script.members]
    assert {"crashed", "left"} <= set(ended)
    assert script.notes.story.count("crash") == ended.count("crashed")
    assert script.notes.story.count("revoked") == ended.count("left")
    # What a member had polled when it went was not committed: the next one starts there again.
    assert script.notes.story[script.notes.story.index("crash") - 1] in ("read 3", "fetched")


def test_producers_are_those_of_produce_and_poll() -> None:
    made = in_a_group().make_worker(role="producer", place=0, places=1, partitions=PARTITIONS)

    assert isinstance(made, ProduceAndPoll)
