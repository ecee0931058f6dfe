"""What a family of checks is: a question to the tables of all runs, and what becomes of its answer in each of them.

Our own are listed in catalogue.py; an installed package brings others (docs/extending.md), which are held to a little
more: they speak of themselves only, and what they find has its page with them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from harness.anomalies import Anomaly
from harness.checks.findings import Finding, RunContext
from harness.checks.judged_runs import Query


@dataclass(frozen=True, kw_only=True)
class Family:
    """`find` turns what is known of one run into findings. `query`, if there is one, asks the tables of all runs first;
    its rows are `context.rows[name]`. follows_detection: it looks at what the fused pass found, and is asked after it.

    anomalies: of a package's family, the pages of what it finds, each named after it or `name/kind`.
    """

    name: str
    find: Callable[[RunContext], list[Finding]]
    query: Query | None = None
    follows_detection: bool = False
    anomalies: tuple[Anomaly, ...] = ()
