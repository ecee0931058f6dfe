"""The blind spots of Jepsen's checker: for each a bad history and a good one, as build.py writes them.

ours: the kinds of ours that the bad story gives; jepsens: those of Jepsen's that it gives besides, since a value that
nobody read is still unseen. row: the blind spot's number; stories of one number show the same one.
"""

from dataclasses import dataclass

# Two ordinary operations, so that there is something in order: without them every story would lack evidence.
_ORDER = "8I send s:z=1; 8O send s:z@0=1; 9I poll p; 9O poll p{z@0=1}; "


@dataclass(frozen=True, kw_only=True)
class BlindSpot:
    row: int
    bad: str
    good: str
    ours: frozenset[str] = frozenset()
    jepsens: frozenset[str] = frozenset()


def _spot(row: int, bad: str, good: str, ours: str = "", jepsens: str = "") -> BlindSpot:
    return BlindSpot(
        row=row, bad=_ORDER + bad, good=_ORDER + good, ours=frozenset(ours.split()), jepsens=frozenset(jepsens.split())
    )


_SENT_012 = "0I send s:x=0; 0O send s:x@0=0; 0I send s:x=1; 0O send s:x@1=1; 0I send s:x=2; 0O send s:x@2=2; "
_READ_ALL = "1I assign x; 1O assign x; 1I poll p; 1O poll p{x@0=0,x@1=1,x@2=2}; "

_TWO_KEYS = "0I txn s:x=1 s:y=2; 0O txn s:x@0=1 s:y@0=2; "

BLIND_SPOTS = {
    "phantom": _spot(
        1, "0I poll p; 0O poll p{x@0=99}", "0I send s:x=99; 0O send s:x@0=99; 0I poll p; 0O poll p{x@0=99}", "phantom"
    ),
    "phantom-of-an-unanswered-send": _spot(
        1,
        "0I poll p; 0F poll p{x@0=99}; 1I send s:x=99; 2I send s:x=98; 2O send s:x=98; 0I poll p; 0O poll p{x@1=98}",
        "1I send s:x=99; 0I poll p; 0O poll p{x@0=99}",
        "read-before-send",
    ),
    "empty-poll": _spot(
        2,
        "0I poll p; 0O poll p{x}; 0I send s:x=1; 0O send s:x@0=1",
        "0I send s:y=1; 0O send s:y@0=1; 0I poll p; 0O poll p{x}; 0I poll p; 0O poll p{y@0=1}",
        "unread-tail",
        "unseen",
    ),
    "unseen-though-read": _spot(
        4,
        "0I send s:x=1 s:x=2; 0N send s:x=1 s:x=2; 3I send s:x=3; 3O send s:x@2=3; 1I poll p; 1O poll p{x@0=1,x@1=2}",
        "0I send s:x=1; 0N send s:x=1; 1I poll p; 1O poll p{x@0=1}",
        "unread-tail",
        "unseen",
    ),
    "read-before-send": _spot(
        6,
        "1I poll p; 1O poll p{x@0=1}; 0I send s:x=1; 0O send s:x@0=1",
        "0I send s:x=1; 1I poll p; 1O poll p{x@0=1}; 0O send s:x@0=1",
        "read-before-send",
        "G1c-realtime strong-PL-2-cycle-exists",
    ),
    "read-write-cycle": _spot(  # in no row: Jepsen's code leaves the edge out
        0,
        "0I send s:x=0; 0O send s:x@0=0; 1I txn s:x=1 s:y=1; 2I txn p; 1O txn s:x@1=1 s:y@0=1; "
        "2O txn p{x@0=0,y@0=1}; 3I poll p; 3O poll p{x@0=0,x@1=1}",
        "0I send s:x=0; 0O send s:x@0=0; 1I txn s:x=1 s:y=1; 2I txn p; 1O txn s:x@1=1 s:y@0=1; "
        "2O txn p{x@0=0,x@1=1,y@0=1}",
        "G-single",
    ),
    "acknowledged-offset-regression": _spot(
        7,
        "0I send s:x=1; 0O send s:x@5=1; 1I send s:x=2; 1O send s:x@3=2; 2I poll p; 2O poll p{x@3=2,x@5=1}",
        "0I send s:x=1; 1I send s:x=2; 0O send s:x@5=1; 1O send s:x@3=2; 2I poll p; 2O poll p{x@3=2,x@5=1}",
        "acknowledged-offset-regression",
    ),
    "head-skip": _spot(
        8,
        _SENT_012 + _READ_ALL + "2I assign x; 2O assign x; 2I poll p; 2O poll p{x@2=2}",
        _SENT_012 + _READ_ALL + "2I assign x; 2O assign x; 2I poll p; 2O poll p{x@0=0,x@1=1}",
        "head-skip",
    ),
    "head-skip-after-seek": _spot(
        8,
        _SENT_012 + "1I poll p; 1O poll p{x@0=0,x@1=1}; 2I assign x !seek; 2O assign x !seek; 2I poll p; "
        "2O poll p{x@2=2}",
        # Somebody's poll ended right before: a committed offset may be where this one began.
        _SENT_012 + "1I poll p; 1O poll p{x@0=0,x@1=1}; 2I assign x; 2O assign x; 2I poll p; 2O poll p{x@2=2}",
        "head-skip",
    ),
    "group-redelivery": _spot(
        9,
        "0I send s:x=1; 0O send s:x@0=1; 1I subscribe x; 1O subscribe x; 2I subscribe x; 2O subscribe x; 1I poll p; "
        "1O poll p{x@0=1}; 2I poll p; 2O poll p{x@0=1}",
        "0I send s:x=1; 0O send s:x@0=1; 1I subscribe x; 1O subscribe x; 2I assign x; 2O assign x; 1I poll p; "
        "1O poll p{x@0=1}; 2I poll p; 2O poll p{x@0=1}",
        "group-redelivery",
    ),
    "tail-loss": _spot(
        10,
        _SENT_012 + "1I poll p; 1O poll p{x@0=0}; 7I ends; 7O ends !end:x@1",
        _SENT_012 + "1I poll p; 1O poll p{x@0=0}; 7I ends; 7O ends !end:x@3; 1I poll p; 1O poll p{x@1=1,x@2=2}",
        "tail-loss",
        "unseen",
    ),
    "unread-tail": _spot(
        10,
        _SENT_012 + "1I poll p; 1O poll p{x@0=0}; 7I ends; 7O ends !end:x@3",
        _SENT_012 + "1I poll p; 1O poll p{x@0=0,x@1=1,x@2=2}",
        "unread-tail",
        "unseen",
    ),
    "acknowledged-without-offset": _spot(
        11,
        "0I send s:x=1; 0O send s:x=1",
        "0I send s:x=1; 0O send s:x=1; 1I poll p; 1O poll p{x@0=1}",
        "acknowledged-without-offset",
        "unseen",
    ),
    "seen-only-by-aborted-poll": _spot(
        12,
        _SENT_012 + "1I poll p; 1F poll p{x@0=0,x@1=1}; 1I poll p; 1O poll p{x@2=2}",
        _SENT_012 + "1I poll p; 1F poll p{x@0=0,x@1=1}; 1I poll p; 1O poll p{x@0=0,x@1=1,x@2=2}",
        "seen-only-by-aborted-poll",
    ),
    "torn-transaction": _spot(
        13,
        _TWO_KEYS + "1I poll p; 1O poll p{x@0=1}; 7I ends; 7O ends !end:y@0",
        _TWO_KEYS + "1I poll p; 1O poll p{x@0=1,y@0=2}; 7I ends; 7O ends !end:y@1",
        "torn-transaction tail-loss",
        "unseen",
    ),
    "torn-transaction-read-past": _spot(
        13,
        _TWO_KEYS + "2I send s:y=3; 2O send s:y@1=3; 1I poll p; 1O poll p{x@0=1,y@1=3}",
        _TWO_KEYS + "2I send s:y=3; 2O send s:y@1=3; 1I poll p; 1O poll p{x@0=1,y@0=2,y@1=3}",
        "torn-transaction",
        "lost-write unseen",
    ),
    # Nobody polled y, or nobody came as far: whether it has its part nobody knows.
    "torn-transaction-not-looked-for": _spot(
        13,
        _TWO_KEYS + "1I poll p; 1O poll p{x@0=1}",
        _TWO_KEYS + "1I poll p; 1O poll p{x@0=1,y@0=2}",
        "torn-transaction-candidate unread-tail",
        "unseen",
    ),
    "torn-transaction-candidate": _spot(
        14,
        "0I txn s:x=1 s:y=2; 0N txn s:x@0=1 s:y=2; 2I send s:y=3; 2O send s:y@1=3; 1I poll p; 1O poll p{x@0=1,y@1=3}",
        "0I txn s:x=1 s:y=2; 0N txn s:x@0=1 s:y=2; 2I send s:y=3; 2O send s:y@1=3; 1I poll p; "
        "1O poll p{x@0=1,y@0=2,y@1=3}",
        "torn-transaction-candidate",
    ),
    "aborted-read-in-aborted-poll": _spot(
        15,
        "0I txn s:x=1; 0F txn s:x@0=1; 1I poll p; 1F poll p{x@0=1}",
        "0I txn s:x=1; 0N txn s:x@0=1; 1I poll p; 1F poll p{x@0=1}",
        "aborted-read-in-aborted-poll",
    ),
    "skip-after-rebalance": _spot(
        16,
        _SENT_012 + "1I poll p; 1O poll p{x@0=0}; 2I poll p; 2O poll p{x@1=1}; 1I poll p; 1O poll p{x@2=2} !assigned:y",
        _SENT_012 + "1I poll p; 1O poll p{x@0=0}; 2I poll p; 2O poll p{x@1=1}; "
        "1I poll p; 1O poll p{} !revoked:x !assigned:x; 1I poll p; 1O poll p{x@2=2}",
        "",
        "poll-skip",
    ),
    "re-read-after-rebalance": _spot(
        16,
        _SENT_012 + "1I poll p; 1O poll p{x@0=0,x@1=1} !assigned:x; 1I poll p; 1O poll p{x@1=1,x@2=2}",
        _SENT_012 + "1I poll p; 1O poll p{x@0=0,x@1=1} !revoked:x; 1I poll p; 1O poll p{x@1=1,x@2=2}",
        "",
        "nonmonotonic-poll",
    ),
    "re-read-after-seek": _spot(
        17,
        _SENT_012 + _READ_ALL + "1I assign x; 1O assign x; 1I poll p; 1O poll p{x@0=0,x@1=1}",
        _SENT_012 + _READ_ALL + "1I assign x !seek; 1O assign x !seek; 1I poll p; 1O poll p{x@0=0,x@1=1}",
        "",
        "nonmonotonic-poll",
    ),
    "conflicting-offsets": _spot(
        18,
        "0I send s:x=a; 0O send s:x@0=a; 0I send s:x=b; 0O send s:x@0=b; 0I send s:x=c; 0O send s:x@1=c; "
        "1I poll p; 1O poll p{x@0=a,x@1=c}; 2I poll p; 2O poll p{x@0=b}",
        "0I send s:x=a; 0O send s:x@0=a; 0I send s:x=c; 0O send s:x@1=c; 1I poll p; 1O poll p{x@0=a,x@1=c}",
        "",
        "inconsistent-offsets",
    ),
    "sparse-offsets": _spot(
        23,
        "0I send s:x=1; 0O send s:x@0=1; 0I send s:x=2; 0O send s:x@4000000000=2; 1I poll p; 1O poll p{x@4000000000=2}",
        "0I send s:x=1; 0O send s:x@0=1; 0I send s:x=2; 0O send s:x@4000000000=2; 1I poll p; "
        "1O poll p{x@0=1,x@4000000000=2}",
        "",
        "lost-write unseen",
    ),
}

# Histories about which nothing can be said: (row, story, why there is no verdict).
WITHOUT_VERDICT = {
    "all-failed": (3, "0I send s:x=1; 0F send s:x=1; 1I poll p; 1F poll p", "no-data"),
    "nothing-but-assignments": (3, "0I assign x; 0O assign x", "no-data"),
    "overlapping-sends": (5, "0I send s:x=1; 1I send s:x=2; 0O send s:x@0=1; 1O send s:x@1=2", "insufficient-evidence"),
}
