"""What an installed package's check found is shown with the page that was stored with it; nothing else is read."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.history.run_folder import RunFolder
from reports.render import write_report
from reports.run.proof import proof_of
from tests.reports.stories.build_run import build_run, finding

SLOW = {
    "page": "slow",
    "names": ["slow"],
    "title": "Slow <answer>",
    "family": "cluster",
    "sentence": "It came late.",
    "package": "p 1.0",
    "markdown": "# Slow\n\n`slow`\n\nLate.\n\n## Rule\n\nAll & <b>each</b>.",
}


def stored(runs: Path, **changes: Any) -> Path:
    """A run whose only finding is of the check `slow`."""
    run = build_run(runs, findings=[finding(check="slow", kind="late", classification="observation", evidence="{}")])
    verdict = run / "verdict.json"
    content = json.loads(verdict.read_text()) | {"anomalies": [SLOW | changes]}
    verdict.write_text(json.dumps(content))
    return run


def page(run: Path) -> str:
    return write_report(run).read_text(encoding="utf-8")


def test_a_finding_of_a_packages_check_has_its_title_and_its_page(tmp_path: Path) -> None:
    html = page(stored(tmp_path))
    assert "Slow &lt;answer&gt;" in html
    assert "All &amp; &lt;b&gt;each&lt;/b&gt;." in html
    assert "package p 1.0" in html


def test_in_a_terminal_it_has_its_title_and_its_package(tmp_path: Path) -> None:
    lines = proof_of(stored(tmp_path), "F1")
    assert lines[0] == "F1  Slow <answer>: observation"
    assert "It came late. More: package p 1.0" in lines


def test_a_page_of_ours_cannot_be_replaced_and_no_file_is_read_for_others(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("# Secret\n\nwhat nobody may see")
    where = f"{'../' * 20}{tmp_path}/secret"
    html = page(stored(tmp_path / "runs", page=where, names=["slow", "lost-write"], markdown=""))
    assert "what nobody may see" not in html
    run = build_run(tmp_path / "others")
    verdict = run / "verdict.json"
    verdict.write_text(json.dumps(json.loads(verdict.read_text()) | {"anomalies": [SLOW | {"names": ["lost-write"]}]}))
    assert "Slow &lt;answer&gt;" not in page(run)


def test_anomalies_of_another_shape_are_reported_in_one_line(tmp_path: Path) -> None:
    run = stored(tmp_path, names="slow")
    with pytest.raises(HarnessError, match=r"verdict\.json: .*anomalies") as caught:
        RunFolder(run).verdict()
    assert "\n" not in str(caught.value)
