"""What judging histories of the world came to, in numbers: the property itself, for the tests and for the nightly.

Never may a broken promise be passed over, nor one be invented; what stays undecided is counted. A wrong verdict is told
with the seed that repeats it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.world.judging import Judged, Reason, kept_silent, why_undecided, wrong, wrong_of_promises
from tests.world.truth import Verdict
from tests.world.visibility import BEFORE_EPOCHS, FULL

# What a release keeps; of one before leader epochs much stays undecided, and is not counted as such.
_ALL_EVIDENCE = (FULL, BEFORE_EPOCHS)


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """`kind`: passed over | invented."""

    seed: int
    kind: str
    text: str


@dataclass(kw_only=True)
class Tally:
    """asked: what the promise says something of, seen in full; undecided: of that, by why. said: by check and class."""

    histories: int = 0
    asked: int = 0
    undecided: Counter[Reason] = field(default_factory=Counter)
    said: Counter[tuple[str, str]] = field(default_factory=Counter)
    truth: Counter[str] = field(default_factory=Counter)
    wrong: list[Wrong] = field(default_factory=list)

    def add(self, one: Judged) -> None:
        self.histories += 1
        self.said.update((finding.check, finding.classification) for _, finding in one.judgement.findings)
        self.truth.update(f"lost {record.verdict.value}" for record in one.lost)
        self.truth.update(f"{broken.kind} {broken.verdict.value}" for broken in one.broken)
        if one.visibility is FULL:
            self.asked += sum(record.verdict is not Verdict.UNSAID for record in one.lost)
            self.asked += sum(
                each.verdict in (Verdict.VIOLATION, Verdict.PERMITTED) and bool(each.checks) for each in one.broken
            )
            self.undecided.update(why_undecided(one))
        self.wrong += wrong_verdicts(one)

    def plus(self, other: "Tally") -> None:
        self.histories += other.histories
        self.asked += other.asked
        self.undecided += other.undecided
        self.said += other.said
        self.truth += other.truth
        self.wrong += other.wrong

    def of(self, kind: str) -> int:
        return sum(each.kind == kind for each in self.wrong)


def tally(judged: Iterable[Judged]) -> Tally:
    found = Tally()
    for one in judged:
        found.add(one)
    return found


def wrong_verdicts(one: Judged) -> list[Wrong]:
    """All of a history. What is seen in part may be silent of what only the withheld part shows."""
    seed = one.history.setup.seed
    found = [
        Wrong(seed=seed, kind="invented" if each.said == "violation" else "passed over", text=each.text)
        for each in wrong(one)
    ]
    found += [Wrong(seed=seed, kind="invented", text=text) for text in accused(one)]
    found += [
        Wrong(seed=seed, kind=kind, text=text)
        for kind, text in wrong_of_promises(one)
        if kind == "invented" or one.visibility in _ALL_EVIDENCE
    ]
    if one.visibility in _ALL_EVIDENCE:
        found += [Wrong(seed=seed, kind="passed over", text=text) for text in kept_silent(one)]
    return found


def accused(one: Judged) -> Sequence[str]:
    """Violations that are said of a system that kept every promise."""
    if not one.history.sound or Verdict.UNSAID in {
        *(record.verdict for record in (*one.lost, *one.lost_before)),
        *(each.verdict for each in one.broken),
    }:
        return []
    setup = one.history.setup
    return [f"seed {setup.seed} ({setup.storyline}; sight: {one.visibility.name}): {each}" for each in one.violations]
