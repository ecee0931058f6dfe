"""The configuration of the reference brokers."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster.brokers.reference import ReferenceSystem
from harness.cluster.local.addresses import AddressBlock
from harness.cluster.local.environment import LocalEnvironment
from harness.ports.cluster import COORDINATION, NodeId
from harness.scenario.model import ClusterSpec


@pytest.fixture
def addresses() -> Iterator[AddressBlock]:
    with AddressBlock([COORDINATION, NodeId(1), NodeId(2)], client_links=1) as made:
        yield made


@pytest.mark.cluster
@pytest.mark.parametrize(("features", "is_stated"), [({}, False), ({"transaction.version": "1"}, True)])
async def test_the_level_of_a_feature_is_told_to_the_brokers(
    addresses: AddressBlock, tmp_path: Path, features: dict[str, str], is_stated: bool
) -> None:
    environment = LocalEnvironment(addresses=addresses, nodes_folder=tmp_path)
    await ReferenceSystem(spec=ClusterSpec(brokers=(1, 2), features=features)).prepare(environment)
    for node in (1, 2):
        settings = (tmp_path / str(node) / "config" / "server.properties").read_text()
        assert ("reference.transaction.version=1\n" in settings) is is_stated


@pytest.mark.cluster
async def test_the_brokers_of_each_cluster_share_a_secret_of_their_own_that_nobody_else_may_read(
    addresses: AddressBlock, tmp_path: Path
) -> None:
    found = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        environment = LocalEnvironment(addresses=addresses, nodes_folder=folder)
        await ReferenceSystem(spec=ClusterSpec(brokers=(1, 2))).prepare(environment)
        files = sorted(folder.glob("*/config/cluster-secret"))
        assert [path.parents[1].name for path in files] == ["1", "2"]
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        (secret,) = {path.read_text().strip() for path in files}
        for path in files:
            settings = (path.parent / "server.properties").read_text()
            assert f"chaos.cluster.secret.file={path}\n" in settings
            assert secret not in settings
        found.append(secret)
    assert len(set(found)) == 2
