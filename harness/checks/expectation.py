"""Expectations of a scenario's steps that failed: each is a violation that names its step."""

from harness.checks.findings import Finding, RunContext
from harness.checks.rulings import Cause


def find(context: RunContext) -> list[Finding]:
    findings = []
    for step in context.story.steps:
        if step["kind"] != "expect" or step["outcome"] not in ("failed", "timeout"):
            continue
        seen = step["seen"] or "nothing"
        when = context.story.seconds(step["t1"])
        number = step["step"] + 1  # people count from one, as the page and the controller do
        sentence = f"Step {number} expected: {step['text']}. Seen {when}: {seen}."
        findings.append(
            Finding(
                run=context.run, check="expectation", classification="violation", kind="failed", count=1,
                sentence=sentence, cause=Cause(code="step-failed", number=number), t_first=step["t0"],
                t_last=step["t1"],
                apart=str(step["step"]), evidence={"step": step["step"], "text": step["text"], "seen": seen},
                faults=[row["fault"] for row in context.story.faults if row["step"] == step["step"]],
            )
        )  # fmt: skip
    return findings
