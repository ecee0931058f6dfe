"""The client libraries by name. Each is imported when it is first used: all but kafka-python are optional extras."""

import importlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from harness.errors import UsageError
from harness.interfaces import Client, ClientMaker
from harness.scenario import WorkloadSpec

_MODULES = {
    "kafka-python": "harness.clients.kafka_python",
    "confluent-kafka": "harness.clients.confluent",
    "aiokafka": "harness.clients.aio",
}
OWN = "kafka-python"  # what the harness itself asks and reads with, whatever client is judged


def _module(name: str) -> Any:
    try:
        return importlib.import_module(_MODULES[name])
    except ModuleNotFoundError as error:
        raise UsageError(f"client {name!r} needs: pip install 'kafka-chaos[clients]' ({error})") from error


class _Lazily:
    """A ClientMaker whose library is imported at the first client."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *, bootstrap: str, settings: WorkloadSpec) -> Client:
        client: Client = _module(self._name).make_client(bootstrap=bootstrap, settings=settings)
        return client


CLIENTS: Mapping[str, ClientMaker] = {name: _Lazily(name) for name in _MODULES}


def for_silent_brokers(version: Sequence[int]) -> Mapping[str, ClientMaker]:
    """The libraries for brokers that cannot be asked for their version: those that can be told it."""

    def make_client(*, bootstrap: str, settings: WorkloadSpec) -> Client:
        client: Client = _module(OWN).make_client(
            bootstrap=bootstrap, settings=settings, brokers_version=tuple(version)
        )
        return client

    return {OWN: make_client}


def check_installed(name: str) -> None:
    """Raises UsageError with the remedy when the library is missing."""
    _module(name)


def limits(settings: WorkloadSpec) -> str:
    """One line on what the library cannot do of what the workload asks; empty when it can do all of it."""
    of = getattr(_module(settings.client), "limits", None)
    told = [] if of is None else of(settings)
    return f"{settings.client}: {'; '.join(told)}" if told else ""


def described(settings: WorkloadSpec) -> dict[str, str]:
    """The library and its limits, as a report's environment shows them."""
    line = limits(settings)
    return {"client": f"{settings.client} {version(settings.client)}"} | ({"client limits": line} if line else {})
