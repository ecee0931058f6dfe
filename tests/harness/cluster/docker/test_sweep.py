"""The sweep removes what a dead run left in the engine, and nothing of active runs or other users."""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.errors import NotFound

from harness.cli.main import main
from harness.cluster.docker.engine import Engine
from harness.cluster.docker.infra import make_network, start_infra
from harness.cluster.docker.labels import HOST, NODE, OWNER, RUN, labels_of, owner
from harness.cluster.docker.sweep import left_by, sweep, sweep_engine
from harness.cluster.local.ownership import RunOwnership, is_anything_over
from harness.cluster.local.processes import boot_id
from harness.errors import HarnessError


def test_labels_say_which_run_node_and_machine(run: Path) -> None:
    labels = labels_of(run, node="3")
    assert labels == {RUN: str(run), HOST: boot_id(), OWNER: owner(), NODE: "3"}


def test_an_owner_is_made_once_and_another_state_directory_is_another_owner(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = owner()
    assert owner() == first
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    assert owner() != first


def test_without_an_engine_there_is_nothing_to_sweep(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{run}/none.sock")
    assert sweep() == []


@pytest.fixture
def left(engine: Engine, infra_image: str, run: Path) -> Iterator[str]:
    """A network, a running container in it and a volume that it uses, all of one run; their common name."""
    name = f"kafka-chaos-test-{uuid.uuid4().hex[:8]}"
    labels = labels_of(run, node="1")
    volume = engine.client.volumes.create(name, labels=dict(labels))
    network = make_network(name, labels)
    infra = start_infra(infra_image, name=name, network=network, labels=labels, volumes=[(name, "/data")])
    yield name
    for thing, options in ((infra.container, {"force": True}), (network, {}), (volume, {})):
        try:
            thing.remove(**options)
        except NotFound:
            continue  # swept, as it should be


def _there(engine: Engine, name: str) -> list[str]:
    """By list and filter: what the engine has of that name."""
    filters = {"name": name}
    kinds = {
        "container": engine.client.containers.list(all=True, filters=filters),
        "network": engine.client.networks.list(filters=filters),
        "volume": engine.client.volumes.list(filters=filters),
    }
    return [kind for kind, found in kinds.items() if found]


def test_what_a_dead_run_left_is_removed_with_one_sentence_each(engine: Engine, left: str, run: Path) -> None:
    assert _there(engine, left) == ["container", "network", "volume"]
    assert sweep() == [
        f"removed container {left} that {run} had left behind",
        f"removed network {left} that {run} had left behind",
        f"removed volume {left} that {run} had left behind",
    ]
    assert _there(engine, left) == []
    assert sweep() == []


def test_a_run_at_work_keeps_all_it_has(engine: Engine, left: str, run: Path) -> None:
    with RunOwnership(run):
        assert sweep_engine(engine) == []
        assert _there(engine, left) == ["container", "network", "volume"]
    assert len(sweep_engine(engine)) == 3


def test_a_run_whose_folder_was_removed_is_over(engine: Engine, left: str, run: Path) -> None:
    shutil.rmtree(run)
    assert len(sweep_engine(engine)) == 3
    assert not run.exists()


def test_what_another_owner_made_is_left_alone(
    engine: Engine, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    assert sweep_engine(engine) == []
    assert _there(engine, left) == ["container", "network", "volume"]


def test_what_cannot_be_removed_is_reported_and_the_rest_is_removed(engine: Engine, left: str, run: Path) -> None:
    volume = engine.client.volumes.get(left)
    image = engine.client.containers.get(left).attrs["Config"]["Image"]
    user = engine.client.containers.create(image, volumes={left: {"bind": "/data", "mode": "rw"}})
    try:
        reported = sweep_engine(engine)
    finally:
        user.remove(force=True)
    assert reported[2].startswith(f"volume {left}, left behind by {run}, cannot be removed: ")
    assert "in use" in reported[2]
    assert sweep_engine(engine) == [f"removed volume {volume.name} that {run} had left behind"]


def test_what_the_engine_refused_is_asked_for_again_although_its_run_is_off_the_list(
    engine: Engine, left: str, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    image = engine.client.containers.get(left).attrs["Config"]["Image"]
    with RunOwnership(run) as ownership:
        ownership.owes = True  # as if it was killed
    user = engine.client.containers.create(image, volumes={left: {"bind": "/data", "mode": "rw"}})
    monkeypatch.setattr("sys.argv", ["kafka-chaos", "sweep"])

    def said() -> tuple[object, str]:
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, "".join(capsys.readouterr())

    try:
        code, first = said()
        assert (code, _there(engine, left)) == (4, ["volume"])
        assert f"volume {left}, left behind by {run}, cannot be removed" in first
        assert not is_anything_over()
        code, again = said()
        assert code == 4
        assert f"volume {left}, left behind by {run}, cannot be removed" in again
    finally:
        user.remove(force=True)
    code, last = said()
    assert code == 0
    assert f"removed volume {left}" in last
    assert "Nothing is left behind." in last
    assert _there(engine, left) == []


def test_what_a_run_left_in_an_engine_that_does_not_answer_is_told_each_time_until_one_does(
    engine: Engine, left: str, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with RunOwnership(run) as ownership:
        ownership.owes = True  # as if it was killed

    def no_engine(address: str) -> Engine:
        raise HarnessError(f"no Docker engine answers at {address}")

    def said() -> tuple[object, str]:
        monkeypatch.setattr("sys.argv", ["kafka-chaos", "sweep"])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, " ".join("".join(capsys.readouterr()).split())

    with monkeypatch.context() as without:
        without.setattr("harness.cluster.docker.sweep.connect", no_engine)
        for _ in range(2):
            code, sentence = said()
            assert code == 4
            assert "may have left in the Docker engine stays: no Docker engine answers" in sentence
    assert _there(engine, left) == ["container", "network", "volume"]
    code, sentence = said()
    assert (code, "Nothing is left behind." in sentence) == (0, True)
    assert _there(engine, left) == []


def test_a_run_that_goes_on_while_no_engine_answers_has_left_nothing(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{run}/none.sock")
    labels_of(run)
    with RunOwnership(run):
        assert sweep() == []
    assert len(sweep()) == 1


def test_a_run_is_swept_in_the_engine_it_was_in_wherever_docker_host_leads_now(
    engine: Engine, left: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that has nothing of the run does not make it forgotten, nor one that is not there."""
    link = tmp_path / "other.sock"  # the same engine by another name, so that the marks are told apart by it
    link.symlink_to(engine.address.removeprefix("unix://"))
    other = tmp_path / "run2"
    other.mkdir()
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("DOCKER_HOST", f"unix://{link}")
        labels_of(other)
    link.unlink()
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
        said = sweep()
    assert _there(engine, left) == []
    assert [sentence.split(" that ")[0] for sentence in said[1:]] == [
        f"removed {kind} {left}" for kind in ("container", "network", "volume")
    ]
    assert said[0].startswith(f"what {other} may have left in the Docker engine stays: no Docker engine answers at ")
    assert [mark.run for mark in left_by()] == [other]
