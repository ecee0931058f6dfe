"""The application's own clients, recorded: everything they can do they still do, and what they send and read is kept.

A library is known by the module of the client's class, and nothing of it is imported: whoever gives a client has it.
"""

from typing import Any

from kafka_chaos_pytest.clients.aio import RecordedAioConsumer, RecordedAioProducer
from kafka_chaos_pytest.clients.confluent import RecordedConfluentConsumer, RecordedConfluentProducer
from kafka_chaos_pytest.clients.kafka_python import RecordedKafkaConsumer, RecordedKafkaProducer
from kafka_chaos_pytest.errors import ChaosError
from kafka_chaos_pytest.journal import Journal

_PRODUCERS = {
    "kafka": RecordedKafkaProducer,
    "confluent_kafka": RecordedConfluentProducer,
    "aiokafka": RecordedAioProducer,
}
_CONSUMERS = {
    "kafka": RecordedKafkaConsumer,
    "confluent_kafka": RecordedConfluentConsumer,
    "aiokafka": RecordedAioConsumer,
}


def recorded_producer(client: Any, journal: Journal) -> Any:
    return _wrapper(client, _PRODUCERS)(client, journal)


def recorded_consumer(client: Any, journal: Journal) -> Any:
    return _wrapper(client, _CONSUMERS)(client, journal)


def _wrapper(client: Any, known: dict[str, Any]) -> Any:
    """Raises ChaosError. A class that derives from a library's is of that library."""
    modules = {"cimpl": "confluent_kafka"}
    for kind in type(client).__mro__:
        top = kind.__module__.partition(".")[0]
        if (found := known.get(modules.get(top, top))) is not None:
            return found
    raise ChaosError(
        "bad-request", f"{type(client).__qualname__} is of no library that can be recorded",
        "give a client of kafka-python, confluent-kafka or aiokafka, or write a journal (docs/control.md)",
    )  # fmt: skip
