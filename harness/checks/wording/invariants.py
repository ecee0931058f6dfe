"""What is said of an invariant that was broken in a simulated run. It is no finding: no client need have seen it."""

from collections.abc import Mapping
from typing import Any

_WORDS = {
    "one-leader-an-epoch": "brokers {wanted} and {seen} both led it",
    "high-watermark-monotonic": "the leader's high watermark went back from {wanted} to {seen}",
    "high-watermark-within-log": "the high watermark {seen} lay above the end of the log, {wanted}",
    "log-matching": "its log had another batch at offset {seen} than the leader, below both high watermarks",
    "committed-on-isr": "its log ended at {seen}, while it was in the ISR and {wanted} were committed",
    "acknowledged-on-isr": "its log ended at {seen}, while it was in the ISR and acks=all was answered up to {wanted}",
}


def broken_invariant_sentence(broken: Mapping[str, Any] | None) -> str:
    """ "" where none was broken. The shape: harness/history/schema/texts.py."""
    if broken is None:
        return ""
    words = _WORDS.get(str(broken["invariant"]), "wanted {wanted}, seen {seen}").format(**broken)
    place = f"{broken['topic']}-{broken['partition']} on broker {broken['node']}, leader epoch {broken['leader_epoch']}"
    return f"Invariant broken ({broken['invariant']}): of {place}, {words}."
