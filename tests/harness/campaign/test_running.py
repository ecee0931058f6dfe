"""One run of a campaign: what its process ended with is what the campaign is told, whatever its folder looks like."""

import asyncio
import sys
from pathlib import Path

import pytest

from harness.campaign.forked import ForkedRuns
from harness.campaign.journal import Ended
from harness.campaign.running import run_one
from harness.history.files_below import FilesBelow
from tests.harness.campaign.test_campaign_outcome import planned


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("ending", "error"),
    [
        ("exit 0", ""),
        ("exit 3", ""),
        ("exit 4", "kafka-chaos: unforeseen"),
        ("kill -9 $$", "kafka-chaos: unforeseen"),
    ],
)
async def test_a_run_that_an_error_or_a_signal_ended_is_an_error_though_it_left_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, error: str
) -> None:
    run = tmp_path / "run.sh"
    run.write_text(
        f'#!/bin/sh\nmkdir -p "$7/one"\necho {{}} > "$7/one/run.json"\necho kafka-chaos: unforeseen\n{ending}\n'
    )
    run.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(run))

    ended = await run_one(
        FilesBelow(tmp_path),
        planned(1),
        tmp_path / "no.toml",
        limit_s=60.0,
        interrupt=asyncio.Event(),
        forked=ForkedRuns(),
    )

    assert isinstance(ended, Ended)
    assert (ended.folder, ended.error) == ("runs/0001/one", error)
