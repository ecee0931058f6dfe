"""What the plugin tells of a flow: which output is of which input, and for which group a consumer reads."""

import asyncio
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from kafka_chaos_pytest import ChaosError, Flow
from kafka_chaos_pytest.clients import group_of
from kafka_chaos_pytest.flow import flows_of, functions_of, ids_of
from kafka_chaos_pytest.journal import Delivered, Journal

from harness.history.facts.values import ValueNames, encode
from harness.history.sealed.tables import Conversion

BILLING = Flow(input="orders", output="invoices", origin=lambda invoice: invoice.partition(b" of ")[2])


def test_a_flow_is_asked_for_in_a_word_or_in_detail() -> None:
    (plain,) = flows_of({"orders": "invoices"})
    assert plain.asked() == {"input": "orders", "output": "invoices", "exactly_once": False, "told": []}
    assert flows_of(None) == []
    assert flows_of(BILLING) == flows_of([BILLING]) == [BILLING]
    once = Flow(input="orders", output="invoices", group="g", exactly_once=True, id=bytes.upper, origin=bytes.lower)
    assert once.asked() == {
        "input": "orders",
        "output": "invoices",
        "group": "g",
        "exactly_once": True,
        "told": ["orders", "invoices"],
    }


def test_ids_are_texts_bytes_numbers_or_none_and_anything_else_is_refused() -> None:
    made: dict[bytes, Any] = {b"a": "Öl", b"b": b"\xff", b"c": 7, b"d": None}
    assert ids_of("orders", made, made.__getitem__) == {b"a": "Öl".encode(), b"b": b"\xff", b"c": b"7", b"d": None}
    with pytest.raises(ChaosError, match="is no id"):
        ids_of("orders", [b"a"], lambda value: 1.5)  # type: ignore[arg-type,return-value]
    with pytest.raises(ChaosError, match="b'x' of orders cannot be made: ValueError"):
        ids_of("orders", [b"x"], int)
    with pytest.raises(ChaosError, match="two flows"):
        functions_of([BILLING, Flow(input="invoices", output="letters", id=bytes.lower)])


def test_what_was_sent_and_read_is_told_with_its_input_in_the_sealed_table(tmp_path: Path) -> None:
    """Values and ids in every form; a value that two journals tell is one row."""
    numbered = encode(3, 123)
    for name, process in (("a", 0), ("b", 2)):
        journal = Journal(tmp_path / f"{name}.jsonl", process=process, worker=name)
        journal.begin_process(role="producer", acks="all")
        for value in (b"invoice of \xff", b"invoice of tea", b"letter"):
            journal.send("invoices", 0, value, None, transaction=None)
        journal.polled(journal.poll(), [Delivered(topic="orders", partition=0, offset=0, value=numbered)])
        assert list(journal.values) == ["invoices", "orders"]
        origins: dict[bytes, bytes | None] = {b"invoice of \xff": b"\xff", b"invoice of tea": b"tea", b"letter": None}
        journal.origins("invoices", origins)
        journal.origins("orders", {numbered: numbered})
        journal.close()
    names = ValueNames()
    conversion = Conversion(names=names)
    conversion.add(tmp_path / "a.jsonl")
    conversion.add(tmp_path / "b.jsonl")
    rows = conversion.finish().value_origins.to_pylist()
    number = names.number
    assert sorted((row["topic"], row["value"], row["origin"]) for row in rows if row["origin"] is not None) == sorted(
        [
            ("invoices", number(b"invoice of \xff"), number(b"\xff")),
            ("invoices", number(b"invoice of tea"), number(b"tea")),
            ("orders", number(numbered), number(numbered)),
        ]
    )
    (of_none,) = [row for row in rows if row["origin"] is None]
    assert (of_none["topic"], of_none["value"]) == ("invoices", number(b"letter"))


class PythonConsumer(kafka.KafkaConsumer):  # type: ignore[misc]
    """Without a broker."""

    def __init__(self, **config: Any) -> None:
        self.config = config


def test_the_group_of_a_consumer_is_its_own_or_told_or_not_known(tmp_path: Path) -> None:
    theirs = confluent_kafka.Consumer({"bootstrap.servers": "", "group.id": "g"})
    assert group_of(PythonConsumer(group_id="g"), given=None) == "g"
    assert group_of(PythonConsumer(group_id=None), given=None) == ""
    assert group_of(theirs, given=None) is None
    assert group_of(theirs, given="g") == "g"
    with pytest.warns(UserWarning, match="group 'g', which counts"):
        assert group_of(PythonConsumer(group_id="g"), given="other") == "g"

    async def own() -> list[str | None]:
        made = [aiokafka.AIOKafkaConsumer(bootstrap_servers="localhost:1", group_id=group) for group in ("g", None)]
        return [group_of(each, given=None) for each in made]

    assert asyncio.run(own()) == ["g", ""]
    journal = Journal(tmp_path / "j.jsonl", process=0, worker="shop")
    journal.begin_process(role="consumer", reads_for="g")
    journal.close()
    conversion = Conversion(names=ValueNames())
    conversion.add(tmp_path / "j.jsonl")
    (row,) = conversion.finish().processes.to_pylist()
    assert (row["reads_for"], row["group"]) == ("g", None)
