"""Polls that go back or skip, inside one poll or between two of the same assignment of the same process.

A skip counts only over records that the final log has. A consumer may be thrown back or forward when its position no
longer exists, so a permitted cut of *committed* records excuses it; a clean fail-over does not.
"""

from harness.checks.contract import lawful_rewind
from harness.checks.detection import Flagged
from harness.checks.findings import Finding, RunContext, finding_of_rows, offsets_words, plural
from harness.checks.story import PartitionStory

# flag -> (check, kind, what happened)
_KINDS = {
    "back_inside": ("nonmonotonic-read", "internal", "came at or below the offset read just before in the same poll"),
    "back_between": ("nonmonotonic-read", "external", "came at or below the end of the same consumer's poll before"),
    "skip_inside": ("skipped-read", "internal", "came after a jump over existing records inside one poll"),
    "skip_between": ("skipped-read", "external", "came after a jump over existing records between two polls"),
}


def find(context: RunContext) -> list[Finding]:
    findings = []
    for flag, (check, kind, what) in _KINDS.items():
        for story, rows in context.by_partition(flag):
            groups: dict[tuple[bool, str], list[Flagged]] = {}
            for row in rows:
                groups.setdefault(_excuse(story, row), []).append(row)
            for (lawful, cause), members in groups.items():
                sentence = (
                    f"{plural(len(members), 'read record')} {offsets_words(members)} of {story.name} {what}: {cause}."
                )
                findings.append(
                    finding_of_rows(
                        context, story, members, check=check, kind=kind, sentence=sentence, cause=cause,
                        classification="permitted" if lawful else "violation",
                    )
                )  # fmt: skip
    return findings


def _excuse(story: PartitionStory, row: Flagged) -> tuple[bool, str]:
    if row.off is None or row.step is None:
        return False, "nothing permits it"
    came_from = row.off - row.step
    rewind = lawful_rewind(story, offset=came_from, epoch=row.read_epoch, t=None, strict=True)
    if rewind is None:
        return False, "nothing permits it"
    how = f"the election of epoch {rewind.epoch} lawfully truncated the log to {rewind.began_at} under the consumer"
    return True, how
