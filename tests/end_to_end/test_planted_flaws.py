"""Planted flaws are found by their checks in shipped scenarios, which pass without.

They run in the simulated world: the same history every time.
"""

import json

import pyarrow.parquet as pq
import pytest

from tests.end_to_end.shell import Shell

pytestmark = [pytest.mark.further, pytest.mark.slow]

FOUND_BY = (
    ("transactions", "no-list-of-aborted", "aborted-read", 1),
    ("transactions", "other-marker-in-last-partition", "torn-transaction", 1),
    ("transactions", "offsets-before-their-marker", "lost-group-offset", 1),
    ("compaction", "keep-first-of-a-key", "compacted-away", 1),
    ("compaction", "compaction-renumbers", "inconsistent-offsets", 1),
    ("leader-crash-acks-all", "truncate-to-high-watermark-on-lead", "lost-write", 3),
    ("leader-crash-acks-all", "leaders-keep-the-epoch", "two-leaders", 3),
    ("disk-loss-fast-restart", "restarts-unnoticed", "lost-write", 3),
    ("last-isr-member", "always-unclean", "unclean-election", 3),
    ("min-isr", "no-min-isr", "acknowledged-below-min-isr", 3),
    ("disk-damage-one-replica", "damaged-batches-taken", "replica-divergence", 3),
)


@pytest.mark.parametrize(("scenario", "flaw", "check", "seed"), FOUND_BY, ids=[each[1] for each in FOUND_BY])
def test_the_flaw_is_found_by_its_check(fresh_shell: Shell, scenario: str, flaw: str, check: str, seed: int) -> None:
    flaws = ("--set", f"cluster.flaws={json.dumps([flaw])}")
    where = ("--system", "reference", "--world", "simulated", "--seed", str(seed))
    ended = fresh_shell.run("run", scenario, *where, *flaws, timeout_s=400)

    assert ended.returncode == 1, ended.stdout + ended.stderr
    findings = pq.read_table(fresh_shell.folder / "tables" / "findings.parquet").to_pylist()
    assert check in {row["check"] for row in findings if row["classification"] == "violation"}
    assert fresh_shell.processes() == []
