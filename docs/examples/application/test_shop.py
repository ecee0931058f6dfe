"""The plugin of kafka-chaos finds the bug of `HastyShop`, and finds nothing against `Shop`.

`python -m pip install pytest kafka-python ../../../harness/pytest_plugin`, then `python -m pytest`.
"""

import pytest
from kafka import KafkaProducer
from kafka_chaos_pytest import Chaos, Findings, leader
from shop import TOPIC, HastyShop, Shop


def orders_while_their_leader_is_cut_off(chaos: Chaos, kind: type[Shop]) -> list[str]:
    """The orders that customers were reported are taken. The cluster has another leader, and is well again."""

    def recorded(**settings: object) -> object:
        return chaos.producer(KafkaProducer(**settings), acks=kind.acks)

    shop = kind(chaos.cluster.bootstrap, producer=recorded)
    taken = [order for order in ("tea", "milk", "bread") if shop.take_order(order)]
    old = chaos.leader(TOPIC)
    with (
        chaos.isolate(leader(TOPIC), from_="peers"),
        chaos.isolate(leader(TOPIC), from_="coordination"),
    ):
        taken += [order for order in ("jam", "salt", "eggs") if shop.take_order(order)]
        chaos.wait_for_new_leader(TOPIC, than=old)
    taken += [order for order in ("rice", "oil") if shop.take_order(order)]
    shop.close()
    return taken


def test_the_hasty_shop_loses_orders_that_it_has_taken(chaos: Chaos) -> None:
    with chaos.record(TOPIC, name="hasty-shop"):
        taken = orders_while_their_leader_is_cut_off(chaos, HastyShop)
        with pytest.raises(Findings, match="lost-write") as found:
            chaos.check()
    lost = {value for finding in found.value.found for value in finding["values"]}
    assert lost & {"jam", "salt", "eggs"}
    assert lost <= set(taken)


def test_the_shop_that_waits_for_the_replicas_loses_nothing(chaos: Chaos) -> None:
    with chaos.record(TOPIC, name="shop"):
        taken = orders_while_their_leader_is_cut_off(chaos, Shop)
        answer = chaos.check()
    assert {"tea", "milk", "bread", "rice", "oil"} <= set(taken)
    assert answer["verdict"] == "pass"
