"""Applications from orders to invoices, by three libraries, in real recordings: what they lose themselves is found."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from kafka_chaos_pytest import Chaos, ChaosCluster, Findings, Flow, leader

from tests.end_to_end.shell import HARNESS

ROOT = Path(__file__).parents[2]
VALUES = (b"tea", b"milk", b"jam")
pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]


def invoice_of(order: bytes) -> bytes:
    return b"invoice of " + order


def order_of(invoice: bytes) -> bytes:
    return invoice.removeprefix(b"invoice of ")


FLOW = Flow(input="orders", output="invoices", origin=order_of)


@pytest.fixture
def chaos(tmp_path: Path) -> Iterator[Chaos]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        with ChaosCluster(command=" ".join(HARNESS), runs=tmp_path / "runs") as cluster:
            yield Chaos(cluster)


def take_orders(chaos: Chaos) -> None:
    servers = chaos.cluster.bootstrap.split(",")
    shop = chaos.producer(kafka.KafkaProducer(bootstrap_servers=servers, acks="all"), name="shop")
    for value in VALUES:
        shop.send("orders", value).get(60)
    shop.close()


def bill_and_die(chaos: Chaos) -> None:
    """It commits an order before it sends the invoice, and dies between the two at the last one."""
    servers = chaos.cluster.bootstrap.split(",")
    biller = chaos.producer(kafka.KafkaProducer(bootstrap_servers=servers, acks="all"), name="biller")
    own = kafka.KafkaConsumer(
        "orders",
        bootstrap_servers=servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=1,
    )
    for order in (orders := chaos.consumer(own, name="orders")):
        orders.commit()
        if order.value == VALUES[-1]:
            break
        biller.send("invoices", invoice_of(order.value)).get(60)
    orders.close()
    biller.close()


def test_an_application_that_commits_before_it_produces_and_dies_has_lost_an_order(chaos: Chaos) -> None:
    with chaos.record("orders", "invoices"):
        take_orders(chaos)
        bill_and_die(chaos)
        with pytest.raises(Findings) as found:
            chaos.check(flow=FLOW)
    (finding,) = found.value.found
    assert (finding["check"], finding["class"], finding["topic"]) == ("application-flow", "violation", "orders")
    assert finding["values"] == ["jam"]
    assert found.value.answer["exit_code"] == 1
    assert "application-flow" in Path(found.value.answer["page"]).read_text(encoding="utf-8")


def test_an_application_that_commits_by_its_library_what_it_has_done_has_lost_nothing(chaos: Chaos) -> None:
    """librdkafka's auto-commit, which confluent-kafka does not tell of."""
    servers, billed = chaos.cluster.bootstrap, 0
    with chaos.record("orders", "invoices"):
        take_orders(chaos)
        own = confluent_kafka.Producer({"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True})
        biller = chaos.producer(own, acks="all", idempotent=True, name="biller")
        settings = {"bootstrap.servers": servers, "group.id": "billing", "auto.offset.reset": "earliest"}
        orders = chaos.consumer(confluent_kafka.Consumer(settings), group="billing", name="orders")
        orders.subscribe(["orders"])
        while billed < len(VALUES):
            order = orders.poll(0.5)
            if order is not None and order.error() is None:
                biller.produce("invoices", invoice_of(order.value()))
                assert biller.flush(60) == 0
                billed += 1
        orders.close()
        answer = chaos.check(flow=FLOW)
    assert (answer["verdict"], answer["findings_in_all"]) == ("pass", 0)


async def _in_transactions(chaos: Chaos) -> None:
    """The leader of the invoices is dead from the first order to the last."""
    servers = chaos.cluster.bootstrap
    writer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, transactional_id="biller")
    reader = aiokafka.AIOKafkaConsumer(
        "orders",
        bootstrap_servers=servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    async with chaos.producer(writer, name="biller") as biller, chaos.consumer(reader, name="orders") as orders:

        async def bill_one() -> None:
            order = await orders.getone()
            place = kafka_place(order)
            async with biller.transaction():
                await biller.send("invoices", invoice_of(order.value))
                await biller.send_offsets_to_transaction({place: order.offset + 1}, "billing")

        await bill_one()
        death = chaos.kill(leader("invoices"))
        await asyncio.to_thread(death.__enter__)
        try:
            for _ in VALUES[1:]:
                await bill_one()
        finally:
            await asyncio.to_thread(death.__exit__, None, None, None)


def kafka_place(order: Any) -> Any:
    return aiokafka.TopicPartition(order.topic, order.partition)


def test_an_application_with_transactions_bills_each_order_once_though_a_leader_dies(chaos: Chaos) -> None:
    with chaos.record("orders", "invoices"):
        take_orders(chaos)
        asyncio.run(_in_transactions(chaos))
        answer = chaos.check(flow=Flow(input="orders", output="invoices", origin=order_of, exactly_once=True))
    assert (answer["verdict"], answer["findings_in_all"]) == ("pass", 0)
