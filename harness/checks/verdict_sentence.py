"""The sentence that a verdict is stated with, and the one of an invariant that was broken in a simulated run."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.checks.evidence_tables import Sums
from harness.checks.findings import REASONS_MAX, Finding
from harness.checks.wording.words import plural
from harness.verdict import Verdict

_BROKEN = {
    "one-leader-an-epoch": "brokers {wanted} and {seen} both led it",
    "high-watermark-monotonic": "the leader's high watermark went back from {wanted} to {seen}",
    "high-watermark-within-log": "the high watermark {seen} lay above the end of the log, {wanted}",
    "log-matching": "its log had another batch at offset {seen} than the leader, below both high watermarks",
    "committed-on-isr": "its log ended at {seen}, while it was in the ISR and {wanted} were committed",
    "acknowledged-on-isr": "its log ended at {seen}, while it was in the ISR and acks=all was answered up to {wanted}",
    "transaction-moves": "its log had a transaction in state {seen} right after state {wanted}",
    "producer-epoch-monotonic": "its log had a producer's epoch go back from {wanted} to {seen}",
    "group-generation-monotonic": "its log had a group's generation go back from {wanted} to {seen}",
}


def verdict_sentence(
    verdict: Verdict,
    reasons: Sequence[str],
    findings: Sequence[Finding],
    sums: Sums,
    *,
    besides: Sequence[str] = (),
    set_aside: Sequence[str] = (),
) -> str:
    """`besides`: what else is told, each a sentence or "". set_aside: known findings, not among `findings`."""
    known = f"{plural(len(set_aside), 'known finding')} set aside: {', '.join(set_aside)}." if set_aside else ""
    sentence = _sentence(verdict, reasons, findings, sums)
    if verdict is Verdict.PASS and set_aside:  # which may be a loss
        sentence = "Pass: no promise was broken but by what is known."
    return " ".join(each for each in (sentence, known, *besides) if each)


def _removed(findings: Sequence[Finding]) -> str:
    """Of a pass: what is not lost, and not there either."""
    count = sum(f.count for f in findings if f.check == "removed-by-configuration")
    return f"; {count} {'was' if count == 1 else 'were'} removed, not lost" if count else ""


def _sentence(verdict: Verdict, reasons: Sequence[str], findings: Sequence[Finding], sums: Sums) -> str:
    acknowledged = plural(sums["acknowledged"], "acknowledged record")
    lost = sum(f.count for f in findings if f.check == "lost-write" and f.classification == "permitted")
    if verdict is Verdict.PASS:
        gone = _removed(findings)
        permitted = sum(finding.classification == "permitted" for finding in findings)
        if lost:
            return (
                f"Pass: of {acknowledged}, {lost} {'was' if lost == 1 else 'were'} lost, and the contract permits it "
                f"({plural(permitted, 'permitted finding')}){gone}."
            )
        if permitted:
            return f"Pass: none of {acknowledged} was lost; {plural(permitted, 'permitted finding')}{gone}."
        return f"Pass: none of {acknowledged} was lost, and no promise was broken{gone}."
    worst = [finding for finding in findings if finding.classification == "violation"]
    if verdict is Verdict.VIOLATION:
        more = f" And {plural(len(worst) - 1, 'more violation')}." if len(worst) > 1 else ""
        return f"Violation: {worst[0].sentence}{more}"
    return f"{verdict.value.capitalize()}: {' '.join(reasons[:REASONS_MAX])}"


def broken_invariant_sentence(broken: Mapping[str, Any] | None) -> str:
    """ "" where none was. It is no finding: no client need have seen it. The shape: harness/history/schema/texts.py."""
    if broken is None:
        return ""
    words = _BROKEN.get(str(broken["invariant"]), "wanted {wanted}, seen {seen}").format(**broken)
    place = f"{broken['topic']}-{broken['partition']} on broker {broken['node']}, leader epoch {broken['leader_epoch']}"
    return f"Invariant broken ({broken['invariant']}): of {place}, {words}."
