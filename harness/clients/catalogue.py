"""The client libraries by name. Each is imported when it is first used: all but kafka-python are optional extras."""

import importlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from harness.client_use import ClientUse
from harness.errors import UsageError
from harness.interfaces import Client, ClientMaker
from harness.scenario import WorkloadSpec

_MODULES = {
    "kafka-python": "harness.clients.kafka_python",
    "confluent-kafka": "harness.clients.confluent",
    "aiokafka": "harness.clients.aio",
}
_MEMBERS = {"kafka-python": "harness.clients.kafka_python_member"}  # of groups, with transactions
OWN = "kafka-python"  # what the harness itself asks and reads with, whatever client is judged


def _module(name: str) -> Any:
    try:
        return importlib.import_module(_MODULES[name])
    except ModuleNotFoundError as error:
        raise UsageError(f"client {name!r} needs: pip install 'kafka-chaos[clients]' ({error})") from error


class _Lazily:
    """A ClientMaker whose library is imported at the first client."""

    def __init__(self, name: str, **more: Any) -> None:
        self._name = name
        self._more = more

    def __call__(self, *, bootstrap: str, settings: WorkloadSpec, use: ClientUse | None = None) -> Client:
        if use is not None:
            check_groups(self._name)
        if use is not None and (use.group or use.transactional_id):
            member = importlib.import_module(_MEMBERS[self._name]).KafkaPythonMember
            client: Client = member(bootstrap=bootstrap, settings=settings, use=use, **self._more)
            return client
        made = {} if use is None else {"use": use}
        client = _module(self._name).make_client(bootstrap=bootstrap, settings=settings, **made, **self._more)
        return client  # noqa: RET504  # the annotation above is what is known of it


CLIENTS: Mapping[str, ClientMaker] = {name: _Lazily(name) for name in _MODULES}


def for_silent_brokers(version: Sequence[int]) -> Mapping[str, ClientMaker]:
    """The libraries for brokers that cannot be asked for their version: those that can be told it."""
    return {OWN: _Lazily(OWN, brokers_version=tuple(version))}


def check_installed(name: str) -> None:
    """Raises UsageError with the remedy when the library is missing."""
    _module(name)


def check_groups(name: str) -> None:
    """Raises UsageError for a library that is not taught groups and transactions here."""
    if name not in _MEMBERS:
        raise UsageError(f"client {name!r} knows no groups and transactions here; use --client {OWN}")


def limits(settings: WorkloadSpec) -> str:
    """One line on what the library cannot do of what the workload asks; empty when it can do all of it."""
    of = getattr(_module(settings.client), "limits", None)
    told = [] if of is None else of(settings)
    return f"{settings.client}: {'; '.join(told)}" if told else ""


def described(settings: WorkloadSpec) -> dict[str, str]:
    """The library and its limits, as a report's environment shows them."""
    line = limits(settings)
    return {"client": f"{settings.client} {version(settings.client)}"} | ({"client limits": line} if line else {})
