"""An engine that does not answer is reported in one line with a remedy; one that answers describes itself."""

import os
from pathlib import Path

import pytest
from docker.errors import APIError, DockerException

from harness.cluster.docker.engine import Engine, connect, engine_errors, is_there, reason
from harness.errors import HarnessError


def test_no_engine_is_one_line_with_the_place_and_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"unix://{tmp_path}/none.sock"
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(HarnessError) as error:
        connect()
    assert str(error.value).startswith(f"no Docker engine answers at {address} (No such file or directory)")
    assert str(error.value).endswith("; start it or use --world local")
    assert "\n" not in str(error.value)
    assert not is_there()


@pytest.mark.parametrize("address", ["tcp://[::1", "tcp://127.0.0.1:99999", "\x1b[31m", "garbage", "fd://", "tcp://"])
def test_an_address_that_is_none_is_one_line_too(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(HarnessError, match=r"^no Docker engine answers at .*; start it or use --world local$"):
        connect()
    assert not is_there()


def test_what_the_engine_refuses_is_reported_in_its_own_words() -> None:
    with pytest.raises(HarnessError, match=r"^making a thing: no such thing$"), engine_errors("making a thing"):
        raise APIError("500 Server Error for http+docker://...", explanation="no such\nthing")
    assert reason(DockerException("plain  words")) == "plain words"


def test_an_engine_that_answers_says_what_it_is(engine: Engine) -> None:
    assert is_there()
    shown = engine.environment()
    assert engine.version in shown["Docker engine"]
    assert os.uname().release in shown["Docker engine"] or "DOCKER_HOST" in os.environ
    assert shown["Docker address"] == engine.address
