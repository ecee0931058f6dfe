"""What a campaign keeps of a judged run's findings."""

from harness.campaign.judging import seen_in
from harness.checks.contract.rulings import Cause
from harness.checks.findings import Finding


def finding(partition: int, cause: Cause | None, *kinds: str) -> Finding:
    return Finding(
        run=0,
        check="duplicate",
        classification="permitted",
        kind="",
        topic="t",
        partition=partition,
        count=3,
        sentence="",
        cause=cause,
        fault_kinds=kinds,
    )


def test_findings_of_one_fingerprint_are_one_with_their_faults_and_a_cause_in_words() -> None:
    resent = Cause(code="sent-again")
    (seen,) = seen_in([("F1", finding(0, resent, "kill")), ("F2", finding(1, resent, "kill"))])
    assert (seen.check, seen.cause, seen.faults, seen.count) == ("duplicate", "sent-again", ["kill"], 2)


def test_another_cause_is_another_finding_and_one_without_a_cause_names_none() -> None:
    seen = seen_in([("F1", finding(0, Cause(code="sent-again"))), ("F2", finding(0, None))])
    assert [each.cause for each in seen] == ["sent-again", ""]
    assert len({each.fingerprint for each in seen}) == 2
