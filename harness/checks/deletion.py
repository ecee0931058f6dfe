"""Records whose topic was deleted: removed on request, or lost to what nobody asked for.

They are judged by the topic that had them, never by one of the same name that was created later.
"""

from typing import Literal

from harness.checks.story import Deletion
from harness.checks.survival import Window

_Class = Literal["violation", "permitted", "observation"]
ASKED = {
    True: "A step of the plan asked for it.",
    False: "Nobody asked for it.",
    None: "Nobody knows who asked for it.",
}


def took(deletion: Deletion, window: Window) -> bool:
    """Unless something shows that it was gone before."""
    return window.until_epoch is None and (window.until_t is None or window.until_t >= deletion.earliest_t)


def outcome(deletion: Deletion, *, otherwise: _Class, undecided: str) -> tuple[_Class, str]:
    """The class of what it took, and what cannot be told; `otherwise`, `undecided`: without the deletion."""
    if deletion.asked:
        return "permitted", ""
    if deletion.asked is None:
        return (
            "observation",
            "its topic was deleted, and somebody else runs this cluster: nobody knows who asked for it",
        )
    if otherwise == "violation":
        return "violation", ""
    return "observation", undecided or "its topic was deleted, and it may have been lawfully lost before that"
