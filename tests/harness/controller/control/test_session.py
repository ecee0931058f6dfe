"""What the requests do: faults by role through the one engine, waits with a limit, topics, recordings."""

import asyncio
import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.history.journals.journal import JournalFile
from harness.host.clock import SystemClock
from harness.ports.cluster import Send, SendOutcome
from tests.harness.controller.control.commanded import Asking, Commanded

ORDERS = {"name": "orders", "assignment": [[1, 2, 3]]}


async def with_orders(world: Commanded) -> Asking:
    asking = await world.connect()
    reported = await asking.ask(topic=ORDERS)
    assert reported["ok"], reported
    return asking


def numbers(lines: Mapping[str, Any]) -> list[int]:
    assert lines["ok"], lines
    return [fault["fault"] for fault in lines["faults"]]


async def test_state_has_nodes_leaders_epochs_and_isr_of_every_topic_that_was_named(world: Commanded) -> None:
    asking = await with_orders(world)
    reported = await asking.ask(id=3, state={})
    assert [(node["node"], node["role"], node["state"]) for node in reported["nodes"]] == [
        (1, "broker", "up"),
        (2, "broker", "up"),
        (3, "broker", "up"),
    ]
    (partition,) = reported["partitions"]
    assert (partition["leader"], partition["leader_epoch"], partition["isr"]) == (1, 0, [1, 2, 3])
    assert (reported["id"], reported["controller"], reported["faults"], reported["recording"]) == (3, 1, [], None)


async def test_a_fault_strikes_by_role_is_reported_in_the_state_and_heals_by_its_number(world: Commanded) -> None:
    asking = await with_orders(world)
    begun = await asking.ask(act={"pause": "leader(orders/0)"})
    (number,) = numbers(begun)
    assert begun["faults"][0]["nodes"] == [1]
    state = await asking.ask(state={})
    assert state["nodes"][0]["state"] == "paused"
    assert state["faults"][0]["fault"] == number
    assert (await asking.ask(heal=[number]))["healed"] == [number]
    assert (await asking.ask(heal=[number]))["healed"] == []  # it is over, and that is no error
    assert world.cluster.deeds == ["pause 1", "resume 1"]


async def test_every_fault_of_the_book_may_be_asked_for_with_its_own_options(world: Commanded) -> None:
    asking = await with_orders(world)
    for act in (
        {"kill": "followers(orders/0) - 2"},
        {"isolate": "controller", "from": "coordination"},
        {"slow": 2, "delay": "300 ms"},
        {"cut": ["2>1"]},
    ):
        assert len(numbers(await asking.ask(act=act))) == 1
    assert world.cluster.deeds == ["kill 3", "cut n1>n100 hang", "slow n1>n2 n2>n1 n2>n3 n3>n2 300", "cut n2>n1 hang"]
    assert len((await asking.ask(heal="all"))["healed"]) == 4
    assert world.cluster.cut_links == set()
    assert world.cluster.running == {1, 2, 3}


async def test_the_order_of_the_keys_of_a_request_means_nothing(world: Commanded) -> None:
    asking = await with_orders(world)
    reported = await asking.ask(act={"from": "coordination", "mode": "reset", "isolate": "leader(orders/0)"})
    assert (reported["faults"][0]["name"], reported["faults"][0]["links"]) == ("isolate", ["1>100"])
    assert (await asking.ask(wait={"partition": 0, "topic": "orders", "leader": 1}))["ok"]
    assert (await asking.ask(act={"topic": "orders", "elect": "preferred"}))["ok"]


async def test_chance_draws_anew_for_each_request(world: Commanded) -> None:
    asking = await with_orders(world)
    drawn = set()
    for _ in range(20):
        reported = await asking.ask(act={"pause": "random(1)"})
        drawn.add(reported["faults"][0]["nodes"][0])
        await asking.ask(heal=numbers(reported))
    assert drawn == {1, 2, 3}


async def test_a_fault_with_a_time_ends_by_itself(world: Commanded) -> None:
    asking = await with_orders(world)
    numbers(await asking.ask(act={"kill": "leader(orders/0)", "for": "50 ms"}))
    assert (await asking.ask(wait={"alive": [1, 2, 3]}, within="20 s"))["seen"] == "alive [1, 2, 3] of [1, 2, 3]"
    assert (await asking.ask(state={}))["faults"] == []


async def test_start_resume_elect_and_configure_are_those_of_a_scenarios_steps(world: Commanded) -> None:
    asking = await with_orders(world)
    await asking.ask(act={"kill": 3})
    assert (await asking.ask(act={"start": 3}))["ok"]
    await asking.ask(act={"pause": 2})
    assert (await asking.ask(act={"resume": 2}))["ok"]
    assert (await asking.ask(act={"elect": "unclean", "topic": "orders"}))["ok"]
    assert (await asking.ask(act={"configure": {"min.insync.replicas": 1}}))["ok"]
    assert world.cluster.deeds == [
        "kill 3",
        "start 3",
        "pause 2",
        "resume 2",
        "elect orders-0 unclean",
        "set orders {'min.insync.replicas': '1'}",
    ]
    world.cluster.election_error = 84
    reported = await asking.ask(act={"elect": "preferred", "topic": "orders"})
    assert reported["error"]["code"] == "failed"
    assert "error 84" in reported["error"]["message"]


async def test_of_a_fault_that_fails_on_one_of_its_victims_nothing_stays_in_force(world: Commanded) -> None:
    asking = await with_orders(world)
    world.cluster.obstacle = "pause 2"
    reported = await asking.ask(act={"pause": [1, 2]})
    assert (reported["error"]["code"], "pause 2 did not work" in reported["error"]["message"]) == ("failed", True)
    assert (await asking.ask(state={}))["faults"] == []
    assert world.cluster.paused == set()


async def test_what_the_machine_refuses_leaves_no_fault_in_force_either(
    world: Commanded, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = await with_orders(world)

    async def refused(node: int) -> None:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))

    with monkeypatch.context() as patched:
        patched.setattr(world.cluster, "pause", refused)
        reported = await asking.ask(act={"pause": 1})
    assert reported["error"]["message"] == "pause of broker 1: No such process"
    assert (await asking.ask(state={}))["faults"] == []


async def test_a_node_that_has_ended_by_itself_is_down_in_the_state(world: Commanded) -> None:
    asking = await with_orders(world)
    world.cluster.running.remove(2)
    assert [node["state"] for node in (await asking.ask(state={}))["nodes"]] == ["up", "down", "up"]


async def test_an_act_and_a_wait_that_run_out_say_what_was_seen(world: Commanded) -> None:
    asking = await with_orders(world)
    reported = await asking.ask(wait={"leader": 3, "topic": "orders"}, within="50 ms")
    assert (reported["error"]["code"], "last seen: leader 1" in reported["error"]["message"]) == ("timeout", True)
    reported = await asking.ask(wait={"new_leader": 1, "topic": "orders"}, within="50 ms")
    assert (reported["error"]["code"], "last seen: leader 1" in reported["error"]["message"]) == ("timeout", True)
    world.cluster.slow_s = 5.0
    reported = await asking.ask(act={"kill": 1}, within="50 ms")
    assert (reported["error"]["code"], "not done within 0.05 s" in reported["error"]["message"]) == ("timeout", True)
    world.cluster.slow_s = 0.0
    assert (await asking.ask(heal="all"))["ok"]


async def test_a_wait_holds_nobody_up_and_ends_when_another_connection_brings_it_about(world: Commanded) -> None:
    asking, other = await with_orders(world), await world.connect()
    waiting = asyncio.ensure_future(asking.ask(wait={"new_leader": 1, "topic": "orders"}, within="30 s"))
    assert (await other.ask(state={}))["ok"]
    assert not waiting.done()
    assert (await other.ask(act={"kill": 1}))["ok"]
    assert (await waiting)["seen"] == "leader 2"


async def test_a_topic_is_created_once_and_a_role_without_one_is_refused(world: Commanded) -> None:
    asking = await world.connect()
    reported = await asking.ask(act={"kill": "leader(orders/0)"})
    assert (reported["error"]["code"], "nobody has that role" in reported["error"]["message"]) == ("failed", True)
    assert (await asking.ask(topic=ORDERS))["ok"]
    assert (await asking.ask(topic=ORDERS))["error"]["code"] == "bad-request"


@pytest.mark.parametrize(
    "topic",
    [{"partitions": -1}, {"partitions": 0}, {"replication_factor": 0}, {"replication_factor": -1}],
)
async def test_a_topic_with_nothing_in_it_is_refused_and_not_waited_for(
    world: Commanded, topic: Mapping[str, Any]
) -> None:
    asking = await with_orders(world)
    named = {"name": "none", **topic}
    for refused in (await asking.ask(topic=named), await asking.ask(record={"topics": [named]})):
        assert refused["error"]["code"] == "bad-request", refused
        assert "at least 1" in refused["error"]["remedy"]


async def test_a_recording_of_a_topic_that_is_named_twice_is_refused(world: Commanded) -> None:
    asking = await world.connect()
    refused = await asking.ask(record={"topics": [{"name": "shop"}, {"name": "shop"}]})
    assert refused["error"]["code"] == "bad-request", refused


@pytest.mark.parametrize(
    "wait",
    [
        {"log_end": 10**12},
        {"log_end": {"x": 1}},
        {"isr": "x"},
        {"isr": [1, "x"]},
        {"leaders_each": [1]},
        {"registered": {}},
        {"isr": [1], "topic": "../../etc"},
        {"new_leader": 1, "topic": "a/b"},
    ],
)
async def test_what_no_cluster_can_come_to_is_refused_and_not_waited_for(
    world: Commanded, wait: Mapping[str, Any]
) -> None:
    asking = await with_orders(world)
    refused = await asking.ask(wait=wait, within="100 ms")
    assert refused["error"]["code"] == "bad-request", refused


async def test_a_recording_keeps_faults_and_the_applications_journal_and_ends_judged(
    world: Commanded, private: Path
) -> None:
    asking = await world.connect()
    begun = await asking.ask(record={"name": "shop", "topics": [ORDERS]})
    assert begun["ok"], begun
    given = await asking.ask(client={"name": "producer"})
    journal = JournalFile(Path(given["journal"]), worker="shop", clock=SystemClock())
    journal.begin_process(given["process"], client="shop", acks="all")
    operation = journal.invoke("send", [Send(topic="orders", partition=0, value=b"an order")])
    now = SystemClock().monotonic_ns()
    journal.complete_send(operation, [SendOutcome(status="ok", offset=0, error=None, end_ns=now)])
    journal.close()
    world.cluster.set_log("an order")
    fault = numbers(await asking.ask(act={"kill": "leader(orders/0)"}))
    refused = await asking.ask(record={"name": "other", "topics": [{**ORDERS, "name": "other"}]})
    assert 'heal it first: {"heal": "all"}' in refused["error"]["remedy"]
    await asking.ask(heal=fault)
    assert (await asking.ask(check={}))["verdict"] == "pass"
    (run,) = world.judged
    assert str(run) == begun["run"]
    (row,) = pq.read_table(run / "tables" / "faults.parquet").to_pylist()
    assert (row["kind"], row["nodes"], row["trigger_text"]) == ("kill", [1], "asked over the control socket")
    sent = [each for each in pq.read_table(run / "tables" / "records.parquet").to_pylist() if each["kind"] == 0]
    assert [(each["status"], each["offset"]) for each in sent] == [(0, 0)]
    assert json.loads((run / "run.json").read_text())["status"] == "complete"
    assert (await asking.ask(check={}))["error"]["code"] == "bad-request"  # it is over
    again = await asking.ask(record={"name": "shop", "topics": [ORDERS]})
    assert "are there already" in again["error"]["message"]


async def test_a_recording_that_nobody_ends_is_sealed_as_interrupted(world: Commanded) -> None:
    asking = await world.connect()
    begun = await asking.ask(record={"name": "shop", "topics": [ORDERS]})
    await asking.ask(act={"kill": 1})
    await world.session.close()
    assert world.cluster.running == {1, 2, 3}
    assert json.loads((Path(begun["run"]) / "run.json").read_text())["status"] == "interrupted"


async def test_what_an_application_is_held_to_is_kept_or_refused_and_the_recording_goes_on(world: Commanded) -> None:
    asking = await world.connect()
    topics = [ORDERS, {**ORDERS, "name": "invoices"}]
    assert (await asking.ask(record={"name": "shop", "topics": topics}))["ok"]
    flow = {"input": "orders", "output": "invoices"}
    for wrong, said in (
        ({**flow, "output": "letters"}, "no topic of the recording"),
        ({"input": "orders"}, "no topic of the recording"),
        ({**flow, "output": "orders"}, "one topic"),
        ({**flow, "told": ["letters"]}, "told is a list"),
        ({**flow, "told": [[]]}, "told is a list"),
        ({**flow, "once": True}, "unknown key"),
        ("orders", "an object"),
    ):
        refused = await asking.ask(check={"flows": [wrong]})
        assert refused["error"]["code"] == "bad-request"
        assert said in refused["error"]["message"]
    assert "at most" in (await asking.ask(check={"flows": [flow] * 21}))["error"]["remedy"]
    asked = [flow, {**flow, "group": "g", "exactly_once": True, "told": ["invoices"]}]
    assert (await asking.ask(check={"flows": asked}))["verdict"] == "pass"
    (run,) = world.judged
    rows = pq.read_table(run / "tables" / "flows.parquet").to_pylist()
    assert [
        (row["flow"], row["group"], row["exactly_once"], row["input_told"], row["output_told"]) for row in rows
    ] == [
        (0, None, False, False, False),
        (1, "g", True, False, True),
    ]
