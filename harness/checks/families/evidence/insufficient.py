"""Runs that prove nothing because too little happened: their verdict says so, with a sentence that says why.

Either nothing was acknowledged, so nothing was promised; or nothing was read and no partition to its end, so no promise
could be tested. A fulfilled expectation of the scenario is evidence, too. A load with acks=0 promises nothing: there
the read records are the evidence. Empty polls prove nothing.

A load of transactions of which none was committed is vacuous: it is about what commits promise.
"""

from harness.checks.coverage import Facts
from harness.checks.families.transactions import isolation
from harness.checks.wording.words import plural
from harness.history.schema.client_rows import TRANSACTIONS
from harness.history.schema.schemas import NEVER_BEGUN, STATUS_FAIL, STATUS_INFO, STATUS_OK

_ENDS = (
    (STATUS_FAIL, "aborted"),
    (STATUS_INFO, "of unknown outcome"),
    (NEVER_BEGUN, "never begun: no broker was told of it"),
)


def reasons(facts: Facts) -> list[str]:
    history, done = facts.context.history, facts.activity
    if any(step["kind"] == "expect" and step["outcome"] == "ok" for step in history.steps):
        return []
    read = int(done["reads"] or 0) + int(done["final_reads"] or 0)
    sent = int(done["sends"] or 0)
    if not sent and not read:
        return ["Nothing was sent and nothing was read: there is no evidence of anything."]
    fire_and_forget = history.scenario is not None and history.scenario.workload.acks == "0"
    if sent and not fire_and_forget and not facts.answered(0, (-1, 1)):
        refused, unknown = facts.answered(1), facts.answered(2)
        outcomes = " and ".join(
            f"{number} {how}" for number, how in ((refused, "failed"), (unknown, "had no known outcome")) if number
        )
        return [f"None of {plural(sent, 'record')} was acknowledged ({outcomes}): nothing was promised."]
    if not read and not any(partition.read_to_end for partition in history.partitions.values()):
        return [f"{plural(sent, 'record')} {plural(sent, 'was')} sent and nothing was read: nothing could be compared."]
    return []


def uncommitted(facts: Facts) -> list[str]:
    """Of a load of transactions: that none of them was committed, unless the scenario itself says how many are to be.

    One of unknown outcome was committed if a read_committed reader returned a record of it.
    """
    scenario = facts.context.history.scenario
    if scenario is None or not scenario.workload.facts.transactional_ids:
        return []
    if "transactions_committed" in scenario.coverage or facts.transactions(STATUS_OK):
        return []
    if any(row["strict"] for row in facts.context.rows[isolation.ANSWER]):
        return []
    count = len(facts.context.tables[TRANSACTIONS])
    if not count:
        return ["The load is of transactions, and none was begun."]
    ends = ", ".join(f"{number} {how}" for outcome, how in _ENDS if (number := facts.transactions(outcome)))
    return [f"None of the load's {plural(count, 'transaction')} was committed ({ends})."]
