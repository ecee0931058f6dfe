"""Records whose topic was deleted: removed on request, or lost by a deletion that nobody requested.

They are judged by the topic that had them, never by a later topic of the same name.
"""

from harness.checks.contract.rulings import Class, Doubt
from harness.checks.contract.survival import Window
from harness.checks.model.partition_history import Deletion


def took(deletion: Deletion, window: Window) -> bool:
    """Whether the deletion removed the record: unless something shows that it was gone before."""
    return window.until_epoch is None and (window.until_t is None or window.until_t >= deletion.earliest_t)


def outcome(deletion: Deletion, *, otherwise: Class, undecided: Doubt | None) -> tuple[Class, Doubt | None]:
    """The class of a record it removed, and the doubt; `otherwise`, `undecided`: the values without the deletion."""
    if deletion.asked:
        return "permitted", None
    if deletion.asked is None:
        return "observation", Doubt(code="topic-deleted-by-somebody")
    if otherwise == "violation":
        return "violation", None
    return "observation", undecided or Doubt(code="lost-before-its-topic")
