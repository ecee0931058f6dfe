"""What a run comes to, the exit code that says so to a shell or a CI, and the conditions that make it worth judging.

A run that did not see what its scenario is about proves nothing: it is `vacuous`. The conditions' names live here,
below the checks that count them (checks/coverage.py), so that a scenario file is refused for an unknown one.
"""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from enum import Enum

from harness.errors import UsageError


class Verdict(Enum):
    PASS = "pass"
    VIOLATION = "violation"
    INCONCLUSIVE = "inconclusive"
    VACUOUS = "vacuous"
    ERROR = "error"

    @property
    def exit_code(self) -> int:
        """0, 1, 3, 3, 4; 2 is a usage error and never a verdict."""
        return {"pass": 0, "violation": 1, "inconclusive": 3, "vacuous": 3, "error": 4}[self.value]


INVARIANT_BROKEN = 5  # exit code: no check found a violation, and an invariant of a simulated run was broken


def exit_code_with(code: int, *, is_invariant_broken: bool) -> int:
    """Of a run, or of several: a violation, and what could not be done, come first."""
    return INVARIANT_BROKEN if is_invariant_broken and code not in (1, 4) else code


_WORST_FIRST = (Verdict.VIOLATION, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.VACUOUS, Verdict.PASS)


def exit_code_of(verdicts: Collection[Verdict]) -> int:
    """Of several runs or histories: a violation somewhere is 1, else an error 4, else what is open 3, else 0.

    What was shown in one of them stays shown, whatever could not be done beside it.
    """
    return next((verdict.exit_code for verdict in _WORST_FIRST if verdict in verdicts), 0)


# Condition -> what it counts. The value "3" of a scenario asks for at least 3, "= 0" for none, "<= 2" for at most 2.
COVERAGE_CONDITIONS: Mapping[str, str] = {
    "acks": "records acknowledged with acks=1 or all",
    "acks_during_fault": "records acknowledged while a fault was in force",
    "acks_all": "records acknowledged with acks=all",
    "acks_1": "records acknowledged with acks=1",
    "acks_unclean_epoch": "records acknowledged in the epoch of an uncleanly elected leader",
    "zombie_acks": "records acknowledged in an epoch that a newer leader had already replaced when they were sent",
    "refused": "records definitely refused (not appended)",
    "unknown": "records whose outcome nobody knows",
    "reads": "records read while the load ran",
    "final_reads": "records read back at the end",
    "elections": "elections of a leader after the first one of each partition",
    "unclean_elections": "elections of a leader that was not in the ISR",
    "preferred_elections": "elections of a live partition's first replica while another replica led",
    "leaderless": "times a partition had no leader",
    "isr_shrinks": "ISR changes that took a member out",
    "isr_expands": "ISR changes that put a member in",
    "isr_changes": "ISR changes of any kind",
    "truncations": "truncations of a replica's log that cut at least one record",
    "truncated_records": "offsets cut by truncations",
    "controller_changes": "controllers elected after the first one",
    "faults": "faults whose effect was seen or not",
    "faults_with_proof": "faults whose effect was seen on the victim",
    "overlaps": "pairs of planned faults that were in force at the same time, with proof",
    "overlaps_apart": "such pairs without a victim in common",
    "kills": "nodes killed, with proof",
    "stops": "nodes shut down in order, with proof",
    "pauses": "nodes paused, with proof",
    "cuts": "link cuts, with proof",
    "slow_links": "delays of links, with proof",
    "impairments": "losses, doublings and reorderings of links' packets, with proof",
    "wipes": "disks lost, with proof",
    "damages": "replicas' logs damaged, with proof",
    "power_losses": "losses of what a replica had not flushed, with proof",
    "disks_full": "disks filled, with proof",
    "elections_asked": "preferred elections asked for as a fault, and answered",
    "unclean_elections_asked": "unclean elections asked for as a fault, and answered",
    "reconfigurations": "topics that had other settings for a while, as a fault",
    "steps": "ordered steps that were done",
    "waits_seen": "waits whose condition was seen",
    "expectations": "expectations that held",
    "node_ends": "nodes that ended while no fault had them down",
    "broker_starts": "broker processes that started, as they journalled it",
    "deaths_and_births_in_one_event": "changes in which the controller saw a broker's death and rebirth at once",
    "configuration_changes": "changes of topic or broker configuration",
    "lost": "acknowledged records that are not in the final log",
    "lost_permitted": "lost records whose loss the contract permits",
    "unreadable": "acknowledged records that replicas hold and no reader may see",
    "log_starts_advanced": "partitions whose log no longer began at offset 0 at the final read",
    "commits": "offsets that a consumer group committed for certain, outside transactions and in them",
    "rebalances": "generations of a consumer group after its first one",
    "redelivered": "records that more than one member of a group read",
    "transactions_committed": "transactions that committed",
    "transactions_aborted": "transactions that were aborted for certain",
    "transactions_unknown": "transactions whose outcome nobody knows",
    "transactions_never_begun": "transactions that no broker was told of: refused by the client, or empty",
    "removed": "acknowledged records that retention or compaction removed",
    "gaps": "times a partition took no write for longer than a second under load",
}


# The conditions that count faults of one kind -> the kinds, as the tables call them.
FAULT_CONDITIONS: Mapping[str, tuple[str, ...]] = {
    "kills": ("kill",),
    "stops": ("stop",),
    "pauses": ("pause",),
    "cuts": ("cut", "hold"),
    "slow_links": ("slow",),
    "impairments": ("impair",),
    "wipes": ("wipe",),
    "damages": ("damage",),
    "power_losses": ("power-loss",),
    "disks_full": ("full",),
    "elections_asked": ("election",),
    "unclean_elections_asked": ("unclean-election",),
    "reconfigurations": ("reconfiguration",),
}
_OF_KIND = "faults_of_"  # and the kind: what counts faults of other people's packages


def coverage_of_kind(kind: str) -> str:
    """The condition that counts faults of a kind."""
    own = (name for name, kinds in FAULT_CONDITIONS.items() if kind in kinds)
    return next(own, _OF_KIND + kind.replace("-", "_"))


def kinds_counted_by(condition: str) -> tuple[str, ...]:
    """The kinds of faults that a condition counts; none where it counts something else."""
    if condition in FAULT_CONDITIONS:
        return FAULT_CONDITIONS[condition]
    return (condition.removeprefix(_OF_KIND).replace("_", "-"),) if condition.startswith(_OF_KIND) else ()


def is_coverage_name(name: str) -> bool:
    return name in COVERAGE_CONDITIONS or (name.startswith(_OF_KIND) and len(name) > len(_OF_KIND))


def meaning_of(condition: str) -> str:
    kinds = " or ".join(kinds_counted_by(condition))
    return COVERAGE_CONDITIONS.get(condition) or f"faults of the kind {kinds}, with proof"


def unknown_coverage_name(name: str) -> UsageError:
    near = get_close_matches(name, COVERAGE_CONDITIONS, n=1)
    hint = f"; nearest: {near[0]}" if near else ""
    return UsageError(f"[coverage]: unknown condition '{name}'{hint}; known: {', '.join(sorted(COVERAGE_CONDITIONS))}")


def is_met(required: str, seen: int) -> bool:
    """ "3" or ">= 3": at least; "= 0" or "== 0": exactly; "<= 2": at most."""
    text = required.strip()
    for sign in (">=", "<=", "==", "="):
        if text.startswith(sign):
            wanted = _number(text[len(sign) :], required)
            return {">=": seen >= wanted, "<=": seen <= wanted}.get(sign, seen == wanted)
    return seen >= _number(text, required)


def _number(text: str, whole: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(
            f'[coverage]: "{whole}" is no requirement; write "3" (at least), "= 0" (exactly) or "<= 2" (at most)'
        ) from None
