"""What a run makes on somebody else's cluster has marked names, is gone afterwards, and is nobody else's."""

import re
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.attached.journal import AttachedJournal
from harness.errors import HarnessError
from harness.ports.capabilities import SharedWithOthers, TakesItsTime
from harness.ports.cluster import TopicDefinition
from tests.harness.cluster.attached.lagging_cluster import LaggingCluster
from tests.harness.cluster.attached.test_own_topics import ORDERS, attach

LIST_GROUPS, LIST_TRANSACTIONS, DELETE_GROUPS, DELETE_TOPICS = 16, 66, 42, 20


@pytest.fixture
def theirs() -> LaggingCluster:
    return LaggingCluster()


async def test_somebodys_topic_of_the_same_name_stays_and_the_run_has_its_own(
    theirs: LaggingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = theirs.put("orders")
    cluster = await attach(theirs, tmp_path, monkeypatch, prefix="chaos")

    await cluster.create_topics([ORDERS])
    (made,) = theirs.topics.keys() - {"orders"}
    assert re.fullmatch(r"chaos-[0-9a-f]{4}-orders", made)
    assert {state.topic for state in await cluster.live_partition_states(["orders"])} == {"orders"}
    await cluster.set_topic_config("orders", {"retention.ms": "5"})
    await cluster.elect("orders", 0, kind="preferred")
    assert (theirs.altered, theirs.elected) == ([made], [made])
    assert {(row.scope, row.name) for row in cluster.collect().configuration} == {("topic", "orders")}

    await cluster.stop()
    assert list(theirs.topics) == ["orders"]
    assert theirs.topics["orders"].topic_id == there
    assert theirs.deleted != [there]


async def test_the_second_run_finds_nothing_of_the_first_one_that_kept_its_topics(
    theirs: LaggingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        run = tmp_path / str(number)
        run.mkdir()
        cluster = await attach(theirs, run, monkeypatch, prefix="chaos", keeps=True)
        await cluster.create_topics([ORDERS])
        await cluster.stop()
    assert len(theirs.topics) == 2


async def test_the_topic_that_a_question_makes_is_the_runs_and_goes_with_it(
    theirs: LaggingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = await attach(theirs, tmp_path, monkeypatch, prefix="chaos")
    asking = cluster.questions()
    assert await asking.create_topic(TopicDefinition(name="odd", partitions=1, replication_factor=3)) == 0
    (made,) = theirs.topics
    assert made == cluster.own_names.there("odd")
    await cluster.stop()
    assert theirs.topics == {}


async def test_a_group_is_deleted_once_the_sessions_of_its_members_are_over(
    theirs: LaggingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs.groups["readers"] = 2
    cluster = await attach(theirs, tmp_path, monkeypatch, prefix="chaos")
    await cluster.claim(groups=["readers"], transactional_ids=["readers-1"])
    own = cluster.own_names.there("readers")
    theirs.groups[own], theirs.busy_groups[own] = 3, 4
    await cluster.stop()
    assert list(theirs.groups) == ["readers"], "somebody's is left alone"
    assert AttachedJournal(tmp_path).owed() == []


@pytest.mark.parametrize("kind", ["group", "transactional id"])
async def test_a_name_without_a_mark_that_is_somebodys_is_refused(
    theirs: LaggingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "group":
        theirs.groups["readers"] = 2
    else:
        theirs.transactional_ids.add("readers-1")
    cluster = await attach(theirs, tmp_path, monkeypatch)
    with pytest.raises(HarnessError, match=rf"^{kind} 'readers(-1)?' is there already, and is left alone; give"):
        await cluster.claim(groups=["readers"], transactional_ids=["readers-1"])
    await cluster.stop()
    assert AttachedJournal(tmp_path).owed() == []
    assert (len(theirs.groups), len(theirs.transactional_ids)) in ((1, 0), (0, 1))


@pytest.mark.parametrize("api", [LIST_GROUPS, LIST_TRANSACTIONS])
async def test_names_of_which_nobody_can_tell_whose_they_are_need_a_mark(
    theirs: LaggingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: int
) -> None:
    theirs.versions |= {api: -1}
    wanted: dict[str, Any] = {"groups": ["readers"], "transactional_ids": ["readers-1"]}
    unmarked = await attach(theirs, tmp_path, monkeypatch)
    with pytest.raises(HarnessError, match="is somebody's cannot be asked of this cluster; give"):
        await unmarked.claim(**wanted)
    (tmp_path / "marked").mkdir()
    marked = await attach(theirs, tmp_path / "marked", monkeypatch, prefix="chaos")
    await marked.claim(**wanted)


async def test_what_a_cluster_cannot_delete_is_not_owed(
    theirs: LaggingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs.versions |= {DELETE_GROUPS: -1, DELETE_TOPICS: -1}
    cluster = await attach(theirs, tmp_path, monkeypatch, prefix="chaos")
    await cluster.claim(groups=["readers"], transactional_ids=[])
    await cluster.create_topics([ORDERS])
    assert AttachedJournal(tmp_path).owed() == []


async def test_an_act_may_take_as_long_as_the_table_lets_its_command(
    theirs: LaggingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = await attach(theirs, tmp_path, monkeypatch)
    assert cluster.longest_act_s == 90
    assert isinstance(cluster, TakesItsTime)
    assert isinstance(cluster, SharedWithOthers)
