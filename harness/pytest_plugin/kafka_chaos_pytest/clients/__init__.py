"""The application's own clients, recorded: everything they can do they still do, and what they send and read is kept.

A library is known by the module of the client's class, and nothing of it is imported: whoever gives a client has it.
"""

import warnings
from typing import Any

from kafka_chaos_pytest.clients.aio import RecordedAioConsumer, RecordedAioProducer
from kafka_chaos_pytest.clients.confluent import RecordedConfluentConsumer, RecordedConfluentProducer
from kafka_chaos_pytest.clients.kafka_python import RecordedKafkaConsumer, RecordedKafkaProducer
from kafka_chaos_pytest.errors import ChaosError
from kafka_chaos_pytest.journal import ACKS, Journal

ISOLATION = ("read_committed", "read_uncommitted")
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


def acks_of(client: Any, *, given: str | int | None) -> str | int:
    """What the producer was set to: as it says itself, else as the test says.

    Raises ChaosError where neither says it: what is promised for a record depends on it.
    """
    own = _wrapper(client, _PRODUCERS).own_acks(client)
    if own is None and given is None:
        raise ChaosError(
            "bad-request",
            f"a producer of {library_of(client)} does not tell its acks",
            'give them: chaos.producer(client, acks="all"), 1 or 0, as it was set to',
        )
    if given is not None and str(given) not in ACKS:
        raise ChaosError("bad-request", f"acks={given!r} is no setting of a producer", 'give "all", 1 or 0')
    if own is not None and given is not None and ACKS[str(own)] != ACKS[str(given)]:
        warnings.warn(f"the producer is set to acks={own}, which counts, and not {given}", stacklevel=3)
    return given if own is None else own  # type: ignore[return-value]


def idempotence_of(client: Any, *, given: bool | None) -> bool | None:
    """Whether the producer is idempotent: as it says itself, else as the test says; None where neither says it."""
    own: bool | None = _wrapper(client, _PRODUCERS).own_idempotence(client)
    if own is not None and given is not None and own != given:
        warnings.warn(f"the producer has idempotence={own}, which counts, and not {given}", stacklevel=3)
    return given if own is None else own


def isolation_of(client: Any, *, given: str | None) -> str | None:
    """What the consumer was set to: as it says itself, else as the test says; None where neither says it."""
    if given not in (None, *ISOLATION):
        raise ChaosError("bad-request", f"isolation={given!r} is none", f"give one of {', '.join(ISOLATION)}")
    return _wrapper(client, _CONSUMERS).own_isolation(client) or given


def group_of(client: Any, *, given: str | None) -> str | None:
    """The group that the consumer reads for, "" if it has none: as it says itself, else as the test says; None where
    neither says it."""
    own: str | None = _wrapper(client, _CONSUMERS).own_group(client)
    if own is not None and given is not None and own != given:
        warnings.warn(f"the consumer has group {own!r}, which counts, and not {given!r}", stacklevel=3)
    return given if own is None else own


def library_of(client: Any) -> str:
    return type(client).__module__.partition(".")[0]


def _wrapper(client: Any, known: dict[str, Any]) -> Any:
    """Raises ChaosError. A class that derives from a library's is of that library."""
    modules = {"cimpl": "confluent_kafka"}
    for kind in type(client).__mro__:
        top = kind.__module__.partition(".")[0]
        if (found := known.get(modules.get(top, top))) is not None:
            return found
    raise ChaosError(
        "bad-request",
        f"{type(client).__qualname__} is of no library that can be recorded",
        "give a client of kafka-python, confluent-kafka or aiokafka, or write a journal (docs/control.md)",
    )
