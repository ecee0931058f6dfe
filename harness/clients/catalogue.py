"""The client libraries by name. Each is imported at its first use: all but kafka-python are optional extras.

Kafka's own clients in Java are no library of this process but programs, which need Java and a release's jars.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from harness.clients.java_program import JavaTools
from harness.clients.renamed import Renaming
from harness.errors import UsageError
from harness.ports.clients import ClientUse, library_for
from harness.ports.cluster import Client, ClientMaker
from harness.ports.load import WorkloadSpec
from harness.ports.own_names import AS_WRITTEN, OwnNames
from harness.ports.security import SecuritySpec
from harness.values import GroupProtocol

_MODULES = {
    "kafka-python": "harness.clients.kafka_python",
    "confluent-kafka": "harness.clients.confluent",
    "aiokafka": "harness.clients.aio",
}
JAVA = "java"
_ALL_MODULES = {**_MODULES, JAVA: "harness.clients.java"}
_MEMBERS = {  # of groups, and transactional producers: the module and its class
    "kafka-python": ("harness.clients.kafka_python_member", "KafkaPythonMember"),
    "confluent-kafka": ("harness.clients.confluent_member", "ConfluentMember"),
    "aiokafka": ("harness.clients.aio_member", "AioMember"),
}
_OF_THE_CONSUMER_PROTOCOL = ("confluent-kafka", JAVA)  # KIP-848
_UNFENCED_PROCESSORS = ("aiokafka",)
OWN = "kafka-python"  # the harness's own requests and reads use this library, whichever is under test


def _module(name: str) -> Any:
    try:
        return importlib.import_module(_ALL_MODULES[name])
    except ModuleNotFoundError as error:
        raise UsageError(f"client {name!r} needs: pip install 'kafka-chaos[clients]' ({error})") from error


class _Lazily:
    """A ClientMaker that imports its library with the first client."""

    def __init__(self, name: str, **more: Any) -> None:
        self._name = name
        self._more = more

    def __call__(self, *, bootstrap: str, settings: WorkloadSpec, use: ClientUse | None = None) -> Client:
        if use is not None and (use.group or use.transactional_id):
            module, kind = _MEMBERS[self._name]
            member = getattr(importlib.import_module(module), kind)
            client: Client = member(bootstrap=bootstrap, settings=settings, use=use, **self._more)
            return client
        made = {} if use is None else {"use": use}
        client = _module(self._name).make_client(bootstrap=bootstrap, settings=settings, **made, **self._more)
        return client  # noqa: RET504  # the annotation above is what is known of it


CLIENTS: Mapping[str, ClientMaker] = {name: _Lazily(name) for name in _MODULES}
NAMES = tuple(_ALL_MODULES)


class _Java:
    """A ClientMaker of Kafka's own clients. tools: looked for with the first of them."""

    def __init__(self, tools: Callable[[], JavaTools], security: SecuritySpec | None) -> None:
        self._tools = tools
        self._security = security

    def __call__(self, *, bootstrap: str, settings: WorkloadSpec, use: ClientUse | None = None) -> Client:
        library = library_for(JAVA, use)
        if library != JAVA:
            return _Lazily(library, security=self._security)(bootstrap=bootstrap, settings=settings, use=use)
        shared = {"bootstrap": bootstrap, "settings": settings, "tools": self._tools(), "security": self._security}
        client: Client
        if use is not None and use.group:
            client = importlib.import_module("harness.clients.java_member").JavaMember(use=use, **shared)
        else:
            client = _module(JAVA).JavaProducer(**shared)
        return client


def for_silent_brokers(version: Sequence[int]) -> Mapping[str, ClientMaker]:
    """The libraries for brokers without ApiVersions: those that accept the brokers' version as a setting."""
    return {OWN: _Lazily(OWN, brokers_version=tuple(version))}


def clients_for(
    silent_version: Sequence[int],
    security: SecuritySpec | None = None,
    names: OwnNames = AS_WRITTEN,
    java: Callable[[], JavaTools] | None = None,
) -> Mapping[str, ClientMaker]:
    """`silent_version`: that of brokers without ApiVersions; empty for all others. `security`, `names`: of somebody
    else's cluster. `java`: None where no client of the load is made."""
    if silent_version:
        return for_silent_brokers(silent_version)
    known = CLIENTS if security is None else {name: _Lazily(name, security=security) for name in _MODULES}
    known = {**known, **({} if java is None else {JAVA: _Java(java, security)})}
    return {name: Renaming(maker, names) for name, maker in known.items()} if names.before else known


def check_installed(name: str) -> None:
    """Raises UsageError with the remedy if the library is missing."""
    _module(name)


def check_group_protocol(name: str, protocol: GroupProtocol) -> None:
    """Raises UsageError for a library whose members do not know the protocol."""
    if protocol == "consumer" and name not in _OF_THE_CONSUMER_PROTOCOL:
        raise UsageError(
            f"client {name!r} has no members of group_protocol 'consumer' (KIP-848); "
            f"use --client {' or '.join(_OF_THE_CONSUMER_PROTOCOL)}"
        )


def check_processors(name: str, processors: int) -> None:
    """Raises UsageError for several processors of a library in which they are not exactly-once: one that has lost a
    partition to another may still commit what it took of it. One alone is fenced by its transactional id."""
    if name in _UNFENCED_PROCESSORS and processors > 1:
        raise UsageError(
            f"client {name!r} sends offsets to a transaction without its generation (KIP-447), so two members may "
            f"process one record; use --client {OWN}, or processors = 1"
        )


def looked_up_group(name: str) -> str:
    """The group whose coordinator this library's consumers look up though they join none; empty: they look up none."""
    return str(getattr(_module(name), "LOOKED_UP_GROUP", ""))


def limits(settings: WorkloadSpec) -> str:
    """One line on which of the workload's settings the library does not support; empty if it supports all."""
    of = getattr(_module(settings.client), "limits", None)
    limitations = [] if of is None else of(settings)
    return f"{settings.client}: {'; '.join(limitations)}" if limitations else ""


def described(settings: WorkloadSpec) -> dict[str, str]:
    """The library and its limits, as a report's environment shows them."""
    line = limits(settings)
    release = _module(JAVA).KAFKA if settings.client == JAVA else version(settings.client)
    return {"client": f"{settings.client} {release}"} | ({"client limits": line} if line else {})
