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
from harness.cluster.docker.labels import OWNER, RUN, owner, still_there
from harness.cluster.local.ownership import when_over
from harness.errors import HarnessError


def sweep() -> list[str]:
    """Returns one sentence per removed object; does nothing if no engine answers."""
    try:
        engine = connect()
    except HarnessError:
        return []
    try:
        still_there().unlink(missing_ok=True)
        return sweep_engine(engine)
    finally:
        engine.close()


def sweep_engine(engine: Engine) -> list[str]:
    sentences = []
    for run in sorted({_run_of(thing) for _, thing in _ours(engine)}):
        with when_over(Path(run)) as over:
            if over:
                sentences.extend(remove_run(engine, Path(run)))
    return sentences


def remove_run(engine: Engine, run: Path) -> list[str]:
    """Removes everything with this run's labels: containers first, because they use the others. Returns one sentence
    each. What cannot be removed now is left to the next sweep."""
    sentences = []
    for kind, thing in _ours(engine, run=run):
        sentence, is_gone = _removed(kind, thing, run)
        if not is_gone:
            still_there().touch()
        if sentence:
            sentences.append(sentence)
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
