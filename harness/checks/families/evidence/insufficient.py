"""Runs that prove nothing because too little happened, with a sentence that says why.

Where nothing was acknowledged (nothing was sent, all was refused or unanswered, or acks=0 asked for no answer) nothing
was promised: vacuous. Where nothing was read and no partition to its end, no promise could be tested: inconclusive. A
fulfilled expectation of the scenario is evidence, too. Empty polls prove nothing.
"""

from harness.checks.coverage import Facts
from harness.checks.wording.words import plural


def nothing_promised(facts: Facts) -> list[str]:
    if _as_expected(facts) or facts.answered(0, (-1, 1)):
        return []
    sent = int(facts.activity["sends"] or 0)
    if not sent:
        was_read = "was sent" if _read(facts) else "was sent and nothing was read"
        return [f"Nothing {was_read}: there is no evidence of anything."]
    counts = {
        "asked for no answer (acks=0)": facts.answered(0, (0,)) + facts.answered(2, (0,)),
        "failed": facts.answered(1),
        "had no known outcome": facts.answered(2, (-1, 1)),
    }
    outcomes = " and ".join(f"{number} {how}" for how, number in counts.items() if number)
    return [f"None of {plural(sent, 'record')} was acknowledged ({outcomes}): nothing was promised."]


def nothing_compared(facts: Facts) -> list[str]:
    sent, partitions = int(facts.activity["sends"] or 0), facts.context.history.partitions
    if _as_expected(facts) or _read(facts) or any(partition.read_to_end for partition in partitions.values()):
        return []
    return [f"{plural(sent, 'record')} {plural(sent, 'was')} sent and nothing was read: nothing could be compared."]


def _as_expected(facts: Facts) -> bool:
    return any(step["kind"] == "expect" and step["outcome"] == "ok" for step in facts.context.history.steps)


def _read(facts: Facts) -> int:
    return int(facts.activity["reads"] or 0) + int(facts.activity["final_reads"] or 0)
