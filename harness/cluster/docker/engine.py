"""The Docker engine: finds it, identifies it, and reports its properties.

Only this folder uses the docker package; its exceptions become a HarnessError of one line here.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import docker
from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from harness.cluster.docker.labels import engine_address
from harness.errors import HarnessError

_FIRST_ANSWER_S = 10
_CONFLICT = 409
_ANSWER_S = 120  # seconds; an engine under load starts containers slowly


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A connection to an engine that answered."""

    client: docker.DockerClient
    address: str
    version: str
    kernel: str
    operating_system: str

    def environment(self) -> dict[str, str]:
        """The properties shown in a report."""
        return {
            "Docker engine": f"{self.version} on {self.operating_system}, kernel {self.kernel}",
            "Docker address": self.address,
        }

    def close(self) -> None:
        self.client.close()


def connect(address: str | None = None) -> Engine:
    """Connects to the engine there, else to that of DOCKER_HOST or the machine's own. Raises HarnessError if none
    answers."""
    address = address or engine_address()
    try:
        environment = {**os.environ, "DOCKER_HOST": address}
        client = docker.from_env(timeout=_FIRST_ANSWER_S, version="auto", environment=environment)
        version, about = client.version(), client.info()
    except (DockerException, RequestException, ValueError) as error:  # ValueError: DOCKER_HOST is no address
        raise HarnessError(
            f"no Docker engine answers at {address} ({reason(error)}); start it or use --world local"
        ) from None
    client.api.timeout = _ANSWER_S
    return Engine(
        client=client,
        address=address,
        version=str(version["Version"]),
        kernel=str(about.get("KernelVersion", "unknown")),
        operating_system=str(about.get("OperatingSystem", "unknown")),
    )


def is_there() -> bool:
    try:
        connect().close()
    except HarnessError:
        return False
    return True


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turns an engine's error into one line: what was tried, and the engine's message."""
    try:
        yield
    except (DockerException, RequestException) as error:
        raise HarnessError(f"{doing}: {reason(error)}") from error


@contextmanager
def unless_ended() -> Iterator[None]:
    """Around a signal to a container: where its process has just ended, which is a conflict, there is nothing to do."""
    try:
        yield
    except APIError as error:
        if error.status_code != _CONFLICT:
            raise


def reason(error: Exception) -> str:
    """The engine's message on one line, without the library's prefix; else what the system said when it was asked."""
    words = getattr(error, "explanation", None) or _said_by_the_system(error) or str(error)
    return " ".join(str(words).split())[:400]


def _said_by_the_system(error: BaseException) -> str:
    """The libraries wrap the system's error into others, as their argument or their context."""
    for inner in (error, *(each for each in error.args if isinstance(each, BaseException)), error.__context__):
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        if inner is not None and inner is not error and (words := _said_by_the_system(inner)):
            return words
    return ""
