"""How much of the world the harness gets to see. All of it is what a run of our own on a well-kept system has."""

from dataclasses import dataclass, replace

BLUR_NS = 1_000_000  # of a run of our own
ALL_SNAPSHOTS = frozenset({"kill", "heal", "truncation", "end"})


@dataclass(frozen=True, kw_only=True)
class Visibility:
    """`books`: the controller's own log, exact. `journals`: what brokers tell of leaderships and high watermarks.

    `epochs`: records and polled states carry leader epochs (old versions have none). `blur_ns`: exact times are off by
    by up to this much, and say so. `reads`: what consumers saw under the load. `ordered`: who was killed was killed by
    faults; otherwise by a signal of somebody, and nobody looked at a disk for that. `returned`: when calls of producers
    with several sends under way had returned; `attempts`: those of theirs that failed.
    """

    name: str = "full"
    books: bool = True
    polled: bool = True
    journals: bool = True
    truncations: bool = True
    snapshots: frozenset[str] = ALL_SNAPSHOTS
    epochs: bool = True
    blur_ns: int = BLUR_NS
    reads: bool = True
    ordered: bool = True
    returned: bool = True
    attempts: bool = True

    def without(self, name: str, **less: object) -> "Visibility":
        return replace(self, name=name, **less)  # type: ignore[arg-type]


FULL = Visibility()
BEFORE_EPOCHS = FULL.without("full, of a release before leader epochs", epochs=False)  # KIP-101: 0.11
UNORDERED = FULL.without("nodes that no fault ended", ordered=False, snapshots=ALL_SNAPSHOTS - {"kill"})
WITHHELD = (
    FULL.without("no books", books=False),
    FULL.without("no books, no journals", books=False, journals=False, truncations=False),
    FULL.without("only the last snapshot", snapshots=frozenset({"end"})),
    FULL.without("no snapshots", snapshots=frozenset(), truncations=False),
    FULL.without("no truncations", truncations=False, snapshots=frozenset({"kill", "heal", "end"})),
    FULL.without("no journals", journals=False, truncations=False),
    FULL.without("no polled states", polled=False),
    FULL.without("nothing of states", books=False, polled=False),
    FULL.without("no epochs", epochs=False),
    FULL.without("no epochs, no books", epochs=False, books=False),
    FULL.without("clients alone", books=False, polled=False, journals=False, truncations=False, snapshots=frozenset()),
    FULL.without("late clocks", blur_ns=400_000_000),
    FULL.without("no reads", reads=False),
)
# Of producers with several sends under way, besides.
OF_SENDS = (
    FULL.without("no times of return", returned=False),
    FULL.without("attempts not told", attempts=False),
    FULL.without("no times of return, attempts not told", returned=False, attempts=False),
)
