"""Removes containers, networks and volumes that runs left in the engine when their harness was killed.

Labels identify the owner, and the entry in the state directory shows whether the run is still active. Objects of an
active run, another user or another machine are left alone.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from docker.errors import DockerException, NotFound
from requests.exceptions import RequestException

from harness.cluster.docker.engine import Engine, connect, engine_errors, reason
from harness.cluster.docker.labels import OWNER, RUN, Mark, entered, forget, owner
from harness.cluster.local.ownership import when_over
from harness.errors import HarnessError


def sweep() -> list[str]:
    """Returns one sentence per removed object, or per run whose objects stay because its engine does not answer.

    Each engine is asked in which a run was entered, wherever DOCKER_HOST leads now.
    """
    sentences: list[str] = []
    for address in sorted({mark.address for mark in entered()}):
        try:
            engine = connect(address)
        except HarnessError as error:
            sentences.extend(
                f"what {mark.run} may have left in the Docker engine stays: {error}; if that engine is gone for good, "
                f"remove {mark.file}"
                for mark in left_by()
                if mark.address == address
            )
            continue
        try:
            sentences.extend(sweep_engine(engine))
        finally:
            engine.close()
    return sentences


def left_by() -> list[Mark]:
    """The runs that are over, and of which an engine may still have something."""
    found = []
    for mark in entered():
        with when_over(mark.run) as over:
            found.extend([mark] if over else [])
    return found


def sweep_engine(engine: Engine) -> list[str]:
    sentences = []
    here = [mark.run for mark in entered() if mark.address == engine.address]
    for run in sorted({*here, *(Path(_run_of(thing)) for _, thing in _ours(engine))}):
        with when_over(run) as over:
            if over:
                sentences.extend(remove_run(engine, run))
    return sentences


def remove_run(engine: Engine, run: Path) -> list[str]:
    """Removes everything with this run's labels: containers first, because they use the others. Returns one sentence
    each. What cannot be removed now is left to the next sweep."""
    sentences, all_gone = [], True
    for kind, thing in _ours(engine, run=run):
        sentence, is_gone = _removed(kind, thing, run)
        all_gone = all_gone and is_gone
        if sentence:
            sentences.append(sentence)
    if all_gone:
        forget(run.resolve(), engine.address)
    return sentences


def _ours(engine: Engine, *, run: Path | None = None) -> Iterator[tuple[str, Any]]:
    """The objects of each type that runs of this state directory created, listed when they are needed."""
    labels = [f"{OWNER}={owner()}", RUN if run is None else f"{RUN}={run}"]
    kinds: Sequence[tuple[str, Any, dict[str, bool]]] = (
        ("container", engine.client.containers, {"all": True, "ignore_removed": True}),
        ("network", engine.client.networks, {}),
        ("volume", engine.client.volumes, {}),
    )
    for kind, collection, options in kinds:
        with engine_errors(f"looking for {kind}s left behind"):
            found = collection.list(filters={"label": labels}, **options)
        yield from ((kind, thing) for thing in found)


def _run_of(thing: Any) -> str:
    labels = thing.labels if hasattr(thing, "labels") else thing.attrs["Labels"]
    return str(labels[RUN])


def _removed(kind: str, thing: Any, run: Path) -> tuple[str, bool]:
    """What there is to say, and whether it is gone. Empty if another sweep or the engine itself removed it first."""
    options = {"container": {"force": True, "v": True}, "network": {}, "volume": {"force": True}}[kind]
    try:
        thing.remove(**options)
    except NotFound:
        return "", True
    except (DockerException, RequestException) as error:
        if "already in progress" in reason(error):
            return "", True
        return f"{kind} {thing.name}, left behind by {run}, cannot be removed: {reason(error)}", False
    return f"removed {kind} {thing.name} that {run} had left behind", True
