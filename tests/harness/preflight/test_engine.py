"""What a run in containers needs of the engine is checked before it: its images, and netem in its kernel."""

import gzip
import platform
from collections.abc import Iterator, Set
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, ImageNotFound

from harness.cluster.docker import engine as docker_engine
from harness.cluster.docker import images
from harness.cluster.docker.engine import Engine
from harness.cluster.docker.netem import missing_options
from harness.errors import Problems
from harness.preflight import machine
from harness.preflight.looking import all_ready, for_its_system, preflight
from harness.scenario.file import Draft

HEAD = '[cluster]\nworld = "docker"\n[[topics]]\nname = "t"\n'
SLOW = '[[steps]]\nact = { slow = ["1>2"], delay = "1 s" }\n'
IMPAIR = '[[faults]]\nkind = "packet-loss"\nat = "1 s"\ntarget = 1\noptions = { loss = "1 %" }\n'
WITHOUT = "CONFIG_NET_CLS_U32=y\nCONFIG_NET_SCH_PRIO=m\n# CONFIG_NET_SCH_NETEM is not set\n"


class EngineImages:
    """An engine's images, and those that its registry has."""

    def __init__(self, here: Set[str], pullable: Set[str]) -> None:
        self.here, self.pullable = here, pullable

    def get(self, name: str) -> None:
        if name not in self.here:
            raise ImageNotFound("no such image")

    def get_registry_data(self, name: str) -> None:
        if name not in self.pullable:
            raise APIError("connection refused")


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Puts an engine of given images and kernel in place of this machine's."""

    def stand(*, here: Set[str], pullable: Set[str] = frozenset(), missing: tuple[str, ...] | None = ()) -> None:
        client: Any = SimpleNamespace(images=EngineImages(here, pullable), close=lambda: None)
        made = Engine(client=client, address="", version="20", kernel="9.9-test", operating_system="")
        monkeypatch.setattr(docker_engine, "connect", lambda *_: made)
        monkeypatch.setattr("harness.cluster.docker.netem.missing_options", lambda _: missing)

    monkeypatch.setenv(images.BASE_VARIABLE, "own-base:1")
    machine._why_no_engine.cache_clear()
    machine._why_no_netem.cache_clear()
    yield stand
    machine._why_no_engine.cache_clear()
    machine._why_no_netem.cache_clear()


def found(text: str, *overrides: str) -> list[str]:
    scenario = for_its_system(Draft(text, name="s", place="s.toml", overrides=overrides))
    return [str(problem) for problem in preflight(scenario, checks=False)]


def test_a_missing_base_image_is_named_with_its_setting_and_how_to_build_it(standing: Any) -> None:
    standing(here=set())
    (problem,) = found(HEAD)
    assert problem.startswith(
        "s.toml:2: base image own-base:1 is not at the Docker engine and cannot be pulled (connection refused); "
        "KAFKA_CHAOS_BASE_IMAGE names the base image: .ci/prepare-docker"
    )


def test_a_base_image_is_not_missed_where_it_can_be_pulled_or_was_built_upon(standing: Any) -> None:
    standing(here={"own-base:1"})
    assert found(HEAD) == []
    standing(here=set(), pullable={"own-base:1"})
    assert found(HEAD) == []
    standing(here={images.infra_recipe().tag, images.reference_recipe().tag})
    assert found(HEAD) == []


@pytest.mark.parametrize(
    ("text", "remedy"),
    [(HEAD + SLOW, "use --world local, or run the engine on"), (HEAD + IMPAIR, "leave it out, or run the engine on")],
)
def test_a_fault_that_needs_netem_is_refused_where_the_kernel_was_built_without(
    text: str, remedy: str, standing: Any
) -> None:
    standing(here={"own-base:1"}, missing=("CONFIG_NET_SCH_NETEM",))
    (problem,) = found(text)
    assert problem.startswith("s.toml:")
    assert f"the Docker engine's kernel 9.9-test has no netem (built without CONFIG_NET_SCH_NETEM); {remedy}" in problem


@pytest.mark.parametrize("missing", [(), None])
def test_netem_that_is_there_or_not_known_of_is_no_problem(missing: tuple[str, ...] | None, standing: Any) -> None:
    standing(here={"own-base:1"}, missing=missing)
    assert found(HEAD + SLOW) == found(HEAD + IMPAIR) == []


def test_other_faults_do_not_need_netem_nor_do_slow_links_of_the_local_world(standing: Any) -> None:
    standing(here={"own-base:1"}, missing=("CONFIG_NET_SCH_NETEM",))
    assert found(HEAD + '[[steps]]\nact = { cut = ["1>2"] }\n') == []
    assert found(HEAD + SLOW, "cluster.world=local") == []


def test_only_the_kernel_of_this_machine_is_read_and_only_where_its_configuration_is(tmp_path: Path) -> None:
    nobody: Any = None
    here = Engine(client=nobody, address="", version="", kernel=platform.release(), operating_system="")
    assert missing_options(here, root=tmp_path) is None

    (tmp_path / "boot").mkdir()
    (tmp_path / f"boot/config-{platform.release()}").write_text(
        WITHOUT.replace("# CONFIG_NET_SCH_NETEM is not set", "CONFIG_NET_SCH_NETEM=m")
    )
    assert missing_options(here, root=tmp_path) == ()

    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/config.gz").write_bytes(gzip.compress(WITHOUT.encode()))
    assert missing_options(here, root=tmp_path) == ("CONFIG_NET_SCH_NETEM",)
    assert missing_options(replace(here, kernel="1.2.3-other"), root=tmp_path) is None


def test_of_several_scenarios_those_that_this_machine_cannot_do_are_left_out_and_the_reason_is_kept(
    standing: Any, tmp_path: Path
) -> None:
    standing(here={"own-base:1"}, missing=("CONFIG_NET_SCH_NETEM",))
    slow, sound = tmp_path / "slow.toml", tmp_path / "sound.toml"
    slow.write_text(HEAD + SLOW)
    sound.write_text(HEAD)
    wanted = [(str(each), ()) for each in (slow, sound)]
    left_out, stays = all_ready(wanted, checks=False, leave_out=True)
    assert "the Docker engine's kernel 9.9-test has no netem" in left_out.not_possible
    assert not stays.not_possible
    with pytest.raises(Problems, match="has no netem"):
        all_ready(wanted, checks=False)
