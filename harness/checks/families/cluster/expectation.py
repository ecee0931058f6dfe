"""Expectations of a scenario's steps that failed: each is a violation that names its step."""

from harness.checks.contract.rulings import Cause
from harness.checks.family import Family
from harness.checks.findings import Finding, RunContext


def find(context: RunContext) -> list[Finding]:
    findings = []
    for step in context.history.steps:
        if step["kind"] != "expect" or step["outcome"] not in ("failed", "timeout"):
            continue
        seen = step["seen_text"] or "nothing"
        when = context.history.seconds(step["end_ns"])
        number = step["step"] + 1  # counted from one, as on the page and in the controller
        sentence = f"Step {number} expected: {step['step_text']}. Seen {when}: {seen}."
        findings.append(
            Finding(
                run=context.run,
                check="expectation",
                classification="violation",
                kind="failed",
                count=1,
                sentence=sentence,
                cause=Cause(code="step-failed", number=number),
                first_ns=step["begin_ns"],
                last_ns=step["end_ns"],
                apart=str(step["step"]),
                evidence={"step": step["step"], "text": step["step_text"], "seen": seen},
                faults=[row["fault"] for row in context.history.faults if row["step"] == step["step"]],
            )
        )
    return findings


FAMILY = Family(name="expectation", find=find)
