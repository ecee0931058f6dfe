"""On somebody else's cluster, only what the run has made is taken for its own: nothing else is changed or deleted."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.attached import administration
from harness.cluster.attached import cluster as attached_cluster
from harness.cluster.attached.by_commands import cluster_by_commands
from harness.cluster.attached.journal import AttachedJournal
from harness.cluster.attached.own_topics import MARK_KEY
from harness.cluster.attached.reachability import Reachability
from harness.errors import HarnessError
from harness.host.clock import SystemClock
from harness.ports.cluster import NodeId, TopicDefinition
from harness.scenario.model import AttachedSpec, ClusterSpec
from tests.harness.cluster.attached.lagging_cluster import LaggingCluster, Topic

CREATE_TOPICS, DELETE_TOPICS, METADATA, DESCRIBE_CONFIGS, DESCRIBE_QUORUM = 19, 20, 3, 32, 55
WITHOUT_IDS = {METADATA: 9, CREATE_TOPICS: 6, DELETE_TOPICS: 5}  # Kafka 2.7
WITHOUT_CONFIGS = {METADATA: 2, CREATE_TOPICS: 1, DELETE_TOPICS: 0, DESCRIBE_CONFIGS: -1}  # Kafka 0.10
OF_EVERY_AGE = pytest.mark.parametrize("versions", [{}, WITHOUT_IDS, WITHOUT_CONFIGS], ids=["4.x", "2.7", "0.10"])
ORDERS = TopicDefinition(name="orders", partitions=1, replication_factor=3)


@pytest.fixture
def theirs() -> LaggingCluster:
    return LaggingCluster()


@pytest.fixture
async def attached(theirs: LaggingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    cluster = await attach(theirs, tmp_path, monkeypatch)
    yield cluster
    await cluster.stop()


async def attach(
    theirs: LaggingCluster, run: Path, monkeypatch: pytest.MonkeyPatch, *, prefix: str = "", keeps: bool = False
) -> Any:
    async def answers(*_: object, **__: object) -> tuple[bool, Reachability]:
        return True, Reachability(kind="answers", words="it answers")

    theirs.versions.setdefault(DESCRIBE_QUORUM, -1)
    theirs.plug_in(monkeypatch)
    monkeypatch.setattr(attached_cluster, "becomes", answers)
    wipes = AttachedSpec(
        prefix=prefix, delete_topics=not keeps, kill="true", start="true", wipe=f"touch {run / 'wiped'}"
    )
    spec = ClusterSpec(system="attached", bootstrap="somebody:1", attached=wipes)
    cluster = cluster_by_commands(spec)(run_path=run, spec=spec, clock=SystemClock())
    await cluster.start()
    return cluster


def owed(run: Path) -> list[tuple[str, str]]:
    return AttachedJournal(run).owed()


# -- creation --------------------------------------------------------------------------------------------------------


async def test_a_topic_that_only_one_broker_knows_is_there_already(theirs: LaggingCluster, attached: Any) -> None:
    theirs.put("orders")
    theirs.lagging = {1: {}, 2: {}}
    with pytest.raises(HarnessError, match="topic 'orders' is there already"):
        await attached.create_topics([ORDERS])


@OF_EVERY_AGE
async def test_a_topic_that_only_the_controller_knows_is_neither_taken_nor_deleted(
    theirs: LaggingCluster, attached: Any, tmp_path: Path, versions: dict[int, int]
) -> None:
    theirs.versions |= versions
    there = theirs.put("orders")
    theirs.lagging = {1: {}, 2: {}, 3: {}}

    with pytest.raises(HarnessError, match="topic 'orders' is there already"):
        await attached.create_topics([ORDERS])

    assert owed(tmp_path) == []
    await attached.stop()
    assert theirs.topics["orders"].topic_id == there


async def test_what_was_made_before_one_is_refused_is_owed_and_what_was_refused_is_not(
    theirs: LaggingCluster, attached: Any, tmp_path: Path
) -> None:
    theirs.put("theirs")
    theirs.lagging = {broker: {} for broker in (1, 2, 3)}
    with pytest.raises(HarnessError, match="topic 'theirs' is there already"):
        await attached.create_topics([ORDERS, TopicDefinition(name="theirs")])
    assert owed(tmp_path) == [("delete", "orders")]
    await attached.stop()
    assert list(theirs.topics) == ["theirs"]


@pytest.mark.parametrize("versions", [{}, WITHOUT_IDS], ids=["4.x", "2.7"])
async def test_a_topic_whose_first_answer_was_lost_is_the_runs_own(
    theirs: LaggingCluster, attached: Any, tmp_path: Path, versions: dict[int, int]
) -> None:
    theirs.versions |= versions
    theirs.lost_answers = 1
    await attached.create_topics([ORDERS])
    assert owed(tmp_path) == [("delete", "orders")]
    await attached.stop()
    assert theirs.topics == {}


async def test_a_creation_of_which_every_answer_is_lost_is_known_by_its_mark(
    theirs: LaggingCluster, attached: Any, tmp_path: Path
) -> None:
    theirs.lost_answers = 1_000_000
    await attached.create_topics([ORDERS])
    assert owed(tmp_path) == [("delete", "orders")]


async def test_where_a_cluster_tells_no_settings_a_lost_answer_proves_nothing(
    theirs: LaggingCluster, attached: Any, tmp_path: Path
) -> None:
    theirs.versions |= WITHOUT_CONFIGS
    theirs.lost_answers = 1
    with pytest.raises(HarnessError, match="topic 'orders' is there already"):
        await attached.create_topics([ORDERS])
    assert owed(tmp_path) == []


async def test_a_cluster_that_lets_nobody_set_the_mark_gets_the_topic_without_it(
    theirs: LaggingCluster, attached: Any, tmp_path: Path
) -> None:
    theirs.refuses = frozenset({MARK_KEY})
    await attached.create_topics([ORDERS])
    assert dict(theirs.topics["orders"].settings) == {}
    await attached.stop()
    assert theirs.topics == {}


async def test_a_setting_of_the_scenario_is_not_replaced_by_the_mark(theirs: LaggingCluster, attached: Any) -> None:
    await attached.create_topics([TopicDefinition(name="orders", settings={MARK_KEY: "1"})])
    assert dict(theirs.topics["orders"].settings) == {MARK_KEY: "1"}


async def test_a_refusal_keeps_its_own_error(theirs: LaggingCluster, attached: Any, tmp_path: Path) -> None:
    theirs.refuses = frozenset({"no.such.key"})
    with pytest.raises(HarnessError, match=r"topic 'orders' was refused with Kafka's error 40; see \[\[topics\]\]"):
        await attached.create_topics([TopicDefinition(name="orders", settings={"no.such.key": "1"})])
    assert owed(tmp_path) == []


async def test_an_authorization_that_lacks_is_named_where_it_was_not_asked_for_before(
    theirs: LaggingCluster, attached: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(administration, "_PAUSE_S", 0)
    theirs.unauthorized = frozenset({"Create", "Delete"})
    with pytest.raises(HarnessError, match="error 29; this user lacks Create on Topic orders; have it granted"):
        await attached.create_topics([ORDERS])
    theirs.unauthorized = frozenset({"Delete"})
    await attached.create_topics([ORDERS])
    with pytest.raises(HarnessError, match="could not be deleted \\(this user lacks Delete on Topic orders"):
        await attached.delete_topic("orders")


async def test_a_topic_is_not_named_before_it_is_made_since_old_brokers_would_create_it(
    theirs: LaggingCluster, attached: Any
) -> None:
    assert await attached.live_partition_states(["orders"]) == []
    await attached.create_topics([ORDERS])
    assert {state.observer for state in await attached.live_partition_states(["orders"])} == {1, 2, 3}


# -- deletion --------------------------------------------------------------------------------------------------------


@OF_EVERY_AGE
async def test_the_runs_topic_goes_with_the_run(
    theirs: LaggingCluster, attached: Any, tmp_path: Path, versions: dict[int, int]
) -> None:
    theirs.versions |= versions
    await attached.create_topics([ORDERS])
    await attached.stop()
    assert theirs.topics == {}
    assert owed(tmp_path) == []


@pytest.mark.parametrize("versions", [{}, WITHOUT_IDS], ids=["4.x", "2.7"])
@pytest.mark.parametrize("by", ["stop", "undo", "step"])
async def test_a_topic_that_took_the_name_of_the_runs_is_not_deleted(
    theirs: LaggingCluster, attached: Any, tmp_path: Path, versions: dict[int, int], by: str
) -> None:
    theirs.versions |= versions
    await attached.create_topics([ORDERS])
    there = theirs.put("orders")

    acts = {"stop": attached.stop, "undo": lambda: attached.undo("delete", "orders")}
    await acts.get(by, lambda: attached.delete_topic("orders"))()

    assert theirs.topics["orders"].topic_id == there
    assert owed(tmp_path) == [], "the run's own is gone"


async def test_brokers_that_do_not_agree_which_topic_is_there_cost_none_of_them(
    theirs: LaggingCluster, attached: Any, tmp_path: Path
) -> None:
    theirs.versions |= WITHOUT_IDS
    await attached.create_topics([ORDERS])
    theirs.lagging[2] = dict(theirs.topics)
    theirs.put("orders")
    await attached.stop()
    assert theirs.deleted == []
    assert owed(tmp_path) == [("delete", "orders")]


async def test_a_cluster_that_takes_the_mark_and_forgets_it_gets_rid_of_the_topic_all_the_same(
    theirs: LaggingCluster, attached: Any
) -> None:
    theirs.versions |= WITHOUT_IDS
    theirs.forgets = frozenset({MARK_KEY})
    await attached.create_topics([ORDERS])
    await attached.stop()
    assert theirs.topics == {}


async def test_a_topic_deleted_and_made_anew_by_steps_is_owed_as_the_second_one(
    theirs: LaggingCluster, attached: Any, tmp_path: Path
) -> None:
    await attached.create_topics([ORDERS])
    await attached.delete_topic("orders")
    assert owed(tmp_path) == []
    await attached.create_topics([ORDERS])
    second = theirs.topics["orders"].topic_id
    await attached.stop()
    assert theirs.deleted[-1] == second


async def test_a_debt_of_a_release_that_did_not_know_which_topic_was_its_own_is_left_to_a_person(
    theirs: LaggingCluster, attached: Any, tmp_path: Path
) -> None:
    journal = AttachedJournal(tmp_path)
    journal.path.write_text('{"topic": "orders"}\n{"owed": "delete", "subject": "orders"}\n')
    theirs.put("orders")
    with pytest.raises(HarnessError, match="delete it by hand if it did"):
        await attached.undo("delete", "orders")
    assert theirs.deleted == []

    theirs.topics.clear()
    assert "is gone already" in (await attached.undo("delete", "orders")).sentence
    assert owed(tmp_path) == []


# -- what is changed -------------------------------------------------------------------------------------------------


async def test_only_the_runs_own_topic_is_reconfigured_and_gets_elections(
    theirs: LaggingCluster, attached: Any
) -> None:
    await attached.create_topics([ORDERS])
    await attached.set_topic_config("orders", {"retention.ms": "1"})
    await attached.elect("orders", 0, kind="preferred")
    assert (theirs.altered, theirs.elected) == (["orders"], ["orders"])


@pytest.mark.parametrize("versions", [{}, WITHOUT_IDS], ids=["4.x", "2.7"])
async def test_a_topic_that_took_the_name_is_not_reconfigured(
    theirs: LaggingCluster, attached: Any, versions: dict[int, int]
) -> None:
    theirs.versions |= versions
    await attached.create_topics([ORDERS])
    theirs.put("orders")
    for act in (
        attached.set_topic_config("orders", {"retention.ms": "1"}),
        attached.elect("orders", 0, kind="unclean"),
    ):
        with pytest.raises(HarnessError, match="another one of that name is there now; nothing was done"):
            await act
    assert theirs.topics["orders"].settings == {}
    assert theirs.elected == []


async def test_a_topic_that_the_run_never_made_is_left_alone(theirs: LaggingCluster, attached: Any) -> None:
    theirs.put("theirs")
    for act in (
        attached.set_topic_config("theirs", {"retention.ms": "1"}),
        attached.elect("theirs", 0, kind="unclean"),
        attached.delete_topic("theirs"),
    ):
        with pytest.raises(HarnessError, match="'theirs' is not this run's, and is left alone"):
            await act
    assert theirs.topics["theirs"].settings == {}
    assert (theirs.altered, theirs.elected, theirs.deleted) == ([], [], [])


@pytest.mark.parametrize(
    ("replicas", "isr", "wiped"),
    [((2,), (2,), False), ((1, 2, 3), (2,), False), ((1, 2, 3), (1, 3), True), ((1,), (1,), True)],
)
async def test_a_disk_with_the_only_in_sync_replica_of_a_topic_of_others_is_not_wiped(
    theirs: LaggingCluster,
    attached: Any,
    tmp_path: Path,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    wiped: bool,
) -> None:
    await attached.create_topics([ORDERS])
    own = theirs.topics["orders"]
    theirs.topics["orders"] = replace(own, replicas=(2,), isr=(2,))  # the run's own may be lost
    theirs.put("asked", replicas=(2,), isr=(2,))
    await attached._note_made("asked")  # by a step that expects it to be made
    theirs.put("__consumer_offsets", replicas=(2,), isr=(2,))  # groups of the run's are there, too
    theirs.put("theirs", replicas=replicas, isr=isr)
    attached._down.add(NodeId(2))
    if wiped:
        await attached.wipe(NodeId(2))
    else:
        with pytest.raises(HarnessError, match=r"broker 2 is not wiped: .* not this run's \(theirs\)"):
            await attached.wipe(NodeId(2))
    assert (tmp_path / "wiped").exists() is wiped


async def test_a_broker_that_lags_behind_the_creation_is_waited_for(
    theirs: LaggingCluster, attached: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await attached.create_topics([ORDERS])
    made: dict[str, Topic] = dict(theirs.topics)
    theirs.lagging = {broker: {} for broker in (1, 2, 3)}
    looked = 0
    answer = LaggingCluster.answer

    def catching_up(cluster: LaggingCluster, broker: int, request: Any, version: int) -> Any:
        nonlocal looked
        looked += 1
        if looked > 12:
            cluster.lagging = {2: made}
        return answer(cluster, broker, request, version)

    monkeypatch.setattr(LaggingCluster, "answer", catching_up)
    await attached.set_topic_config("orders", {"retention.ms": "1"})
    assert theirs.altered == ["orders"]
