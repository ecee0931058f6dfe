"""Whether what was lost had been acknowledged by a leader already deposed: then it was lost as that was said."""

from collections.abc import Mapping
from typing import Any

from harness.history.facts.finding_facts import ChainLink, chain_of


def too_late(evidence: Mapping[str, Any]) -> tuple[ChainLink, ChainLink] | None:
    """(the acknowledgement, the election before it) where a deposed leader acknowledged what was lost, and only that.

    Older findings do not store whether it was deposed: there the order of both says it.
    """
    links = chain_of(evidence)
    answers = [link for link in links if link.event == "acknowledged"]
    election = next((link for link in links if link.event == "election"), None)
    if election is None or not answers or any(link.epoch_before is None for link in answers):
        return None
    if any(link.deposed is False or link.t_ns <= election.t_ns for link in answers):
        return None
    return answers[0], election
