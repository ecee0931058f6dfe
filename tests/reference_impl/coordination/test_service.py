"""The service reads ZooKeeper's own zoo.cfg."""

from pathlib import Path

import pytest

from reference_impl.coordination.service import ConfigurationError, CoordinationConfig, run_from_config


def written(folder: Path, text: str) -> Path:
    path = folder / "zoo.cfg"
    path.write_text(text, encoding="utf-8")
    return path


def test_session_limits_follow_the_tick_unless_given(tmp_path: Path) -> None:
    base = "# comment\nclientPort=2181\ndataDir=/data\ntickTime=100\ninitLimit=5\n"
    config = CoordinationConfig.load(written(tmp_path, base))
    assert (config.session_timeout_min_ms, config.session_timeout_max_ms) == (200, 2000)
    config = CoordinationConfig.load(
        written(tmp_path, base + "minSessionTimeout=1\nmaxSessionTimeout=9\nforceSync=yes")
    )
    assert (config.session_timeout_min_ms, config.session_timeout_max_ms, config.force_sync) == (1, 9, True)
    assert (config.port, config.address, config.data_directory) == (2181, "127.0.0.1", Path("/data"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clientPort=1", "dataDir is missing"),
        ("dataDir=/d", "clientPort is missing"),
        ("dataDir=/d\nclientPort=x", "x is"),
    ],
)
def test_what_is_missing_or_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        CoordinationConfig.load(written(tmp_path, text))


def test_a_service_that_cannot_start_says_so_by_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()
    (tmp_path / "version-2" / "log.1").write_bytes(b"not a log at all")
    assert run_from_config(str(written(tmp_path, f"clientPort=0\ndataDir={tmp_path}\n"))) == 1
    assert run_from_config(str(written(tmp_path, "clientPort=0\n"))) == 2
    assert run_from_config(str(tmp_path / "missing.cfg")) == 1
