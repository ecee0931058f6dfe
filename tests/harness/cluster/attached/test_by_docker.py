"""Containers that are not what they seem: in others' networks, made anew since, or deaf to SIGTERM."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cluster.attached import compose_project
from harness.cluster.attached.by_docker import ComposeCluster
from harness.cluster.attached.container_rules import ContainerRules
from harness.cluster.attached.journal import AttachedJournal
from harness.errors import HarnessError
from harness.host.clock import SystemClock
from harness.ports.cluster import Link, NodeId
from harness.preflight.engine import why_no_cut
from harness.scenario.model import ClusterSpec

SPEC = ClusterSpec(system="compose:compose.yaml")


class Container:
    """Of the docker package's class what is used here; `did` is what was done to it."""

    def __init__(self, name: str, *, network: str = "shop_default", identity: str = "now", exit_code: int = 0) -> None:
        self.name, self.id, self.short_id = name, identity, identity[:12]
        self.did: list[str] = []
        self._exit_code = exit_code
        state = {"Running": True, "Paused": True, "Status": "running", "ExitCode": 0, "Pid": 1}
        self.attrs: dict[str, Any] = {"HostConfig": {"NetworkMode": network}, "State": state}

    def reload(self) -> None:
        return

    def start(self) -> None:
        self.did.append("start")

    def unpause(self) -> None:
        self.did.append("unpause")

    def stop(self, *, timeout: int) -> None:
        self.did.append("stop")
        self.attrs["State"] |= {"Running": False, "Status": "exited", "ExitCode": self._exit_code}


def found(monkeypatch: pytest.MonkeyPatch, *containers: Container) -> None:
    engine = SimpleNamespace(close=lambda: None)
    by_node = {NodeId(number): each for number, each in enumerate(containers, 1)}
    monkeypatch.setattr(compose_project, "find", lambda spec: (engine, by_node))


def compose_cluster(run: Path) -> Any:
    return ComposeCluster(run_path=run, spec=SPEC, client_links=1, clock=SystemClock())


@pytest.mark.parametrize(
    ("network", "sentence"),
    [
        ("host", "two shares this machine's network: cutting it would cut the machine"),
        ("container:4711", "two shares another container's network: cutting it would cut that one too"),
        ("none", "two has no network"),
    ],
)
async def test_no_rule_is_written_where_one_end_is_in_a_network_of_others(
    network: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    containers: dict[NodeId, Any] = {NodeId(1): Container("one"), NodeId(2): Container("two", network=network)}
    rules = ContainerRules(containers)
    monkeypatch.setattr(rules, "_write", lambda nodes: pytest.fail(f"rules are written at {nodes}"))
    for link in ("1>2", "2>1"):
        with pytest.raises(HarnessError, match=sentence):
            await rules.cut([Link.parse(link)], mode="hang")

    found(monkeypatch, *containers.values())
    assert why_no_cut(SPEC) == sentence  # which the preflight tells


@pytest.mark.parametrize(("what", "subject"), [("start", "1"), ("resume", "1"), ("heal", "n2>n1")])
async def test_a_container_that_was_made_anew_since_the_run_is_left_alone(
    what: str, subject: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = AttachedJournal(tmp_path)
    journal.in_containers({NodeId(1): "then", NodeId(2): "now"})
    journal.owe(what, subject)
    container = Container("one")
    found(monkeypatch, container, Container("two"))

    evidence = await compose_cluster(tmp_path).undo(what, subject)

    assert "one: made anew since, and left alone" in evidence.sentence
    assert container.did == []
    assert journal.owed() == []


async def test_a_node_that_only_the_engines_sigkill_ended_did_not_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(monkeypatch, Container("one", exit_code=137))
    cluster = compose_cluster(tmp_path)
    cluster._look_up()
    with pytest.raises(HarnessError, match="one did not end by itself within 30 s of SIGTERM"):
        await cluster.shut_down(NodeId(1))
    assert AttachedJournal(tmp_path).owed() == [("start", "1")], "it is down, and is started in the end"
