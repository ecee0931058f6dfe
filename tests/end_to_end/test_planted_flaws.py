"""Flaws of groups, transactions and compaction are found by their checks in shipped scenarios, which pass without.

They run in the simulated world: the same history every time.
"""

import json

import pyarrow.parquet as pq
import pytest

from tests.end_to_end.shell import Shell

pytestmark = [pytest.mark.further, pytest.mark.slow]

FOUND_BY = (
    ("transactions", "no-list-of-aborted", "aborted-read"),
    ("transactions", "other-marker-in-last-partition", "torn-transaction"),
    ("transactions", "offsets-before-their-marker", "lost-group-offset"),
    ("compaction", "keep-first-of-a-key", "compacted-away"),
    ("compaction", "compaction-renumbers", "inconsistent-offsets"),
)


@pytest.mark.parametrize(("scenario", "flaw", "check"), FOUND_BY, ids=[each[1] for each in FOUND_BY])
def test_the_flaw_is_found_by_its_check(fresh_shell: Shell, scenario: str, flaw: str, check: str) -> None:
    flaws = ("--set", f"cluster.flaws={json.dumps([flaw])}")
    where = ("--system", "reference", "--world", "simulated", "--seed", "1")
    ended = fresh_shell.run("run", scenario, *where, *flaws, timeout_s=400)

    assert ended.returncode == 1, ended.stdout + ended.stderr
    findings = pq.read_table(fresh_shell.folder / "tables" / "findings.parquet").to_pylist()
    assert check in {row["check"] for row in findings if row["classification"] == "violation"}
    assert fresh_shell.processes() == []
