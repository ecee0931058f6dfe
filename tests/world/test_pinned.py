"""Histories that were judged wrongly once, each in the sight in which it was: nothing is passed over or invented."""

from typing import TYPE_CHECKING

import pytest

from harness.verdict import Verdict
from tests.world.drawing import CLEANING, GROUPS, IN_FLIGHT, PROCESSING, RECORDS, SETTINGS, TRANSACTIONS
from tests.world.histories import history
from tests.world.judging import judged
from tests.world.tally import tally
from tests.world.visibility import BEFORE_EPOCHS, FULL, OF_SENDS, UNORDERED, WITHHELD

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SIGHTS = {sight.name: sight for sight in (FULL, BEFORE_EPOCHS, UNORDERED, *WITHHELD, *OF_SENDS)}
PINNED = {
    RECORDS: (
        (5000154, "no snapshots"),  # its own leader led again without what it had written
        (5000193, "no snapshots"),  # the mark of the elected one shows that it had it
        (600056, "only the last snapshot"),  # a follower in sync cut at its place by the word of the next leader
        (22048, "full"),  # sent to a deposed leader after its successor had begun
        (50296, "full"),  # read, never acknowledged, and lost with the power of all
        (20193, "full"),
        (9981008, "late clocks"),  # its leader cut it before an unclean election, or after
        (10206960, "nodes that no fault ended"),  # its leader cut it, and the next one led from above it
        (10205648, "late clocks"),  # nobody knows whether a replica was in sync again when its log was read
        (10300176, "no snapshots"),  # cut within its epoch, and written anew there, before all lost their power
        (11101012, "full"),  # the same, and the record that was written below it was damaged then
        (11101012, "no books"),
        (11100672, "full"),  # below the second record of a batch, whose first stands below it
        (11503840, "full"),  # its answer was on the way to a reader when its leader lost its power
        (11503840, "clients alone"),
        (7501196, "no books, no journals"),  # a cycle of what was read before a cut of which nobody knows the reason
    ),
    TRANSACTIONS: (
        (31003520, "full"),  # read past an open transaction that began after an allowed unclean election
        (31003553, "full"),  # the end of another client of its transactional id had ended it
        (11501513, "full"),  # of an aborted transaction a part was given, and a record without an answer was not
        (7000080, "full"),  # what was sent to a log that had been wiped stands below where a reader had begun
        (5000135, "clients alone"),  # hidden or lost: no log was read
        (6000677, "nothing of states"),  # it is not known who was in sync
        (7000031, "full"),  # an allowed unclean election took the begin of a transaction, an older decision ended it
        (9000144, "full"),  # read before the transaction began there, in a log that was cut since
        (7700081, "full"),  # who lacked it was elected and lost its election again before it began to lead
        (9970181, "full"),  # an unclean election of the decisions' log that took nothing of it
        (10205377, "full"),  # an unclean election took a decision that was taken again
        (
            11000594,
            "full",
        ),  # unknown: its coordinator forgot one of its partitions, and a later marker committed it there
        (10202521, "full"),  # all that the coordinator knew was lost before its producer was at work
    ),
    GROUPS: (
        (11501746, "clients alone"),  # acknowledged on the way while the only disk in sync was wiped
        (77167, "nothing of states"),  # within an assignment the log was cut below the position
        (7500046, "full"),  # a commit without an answer, of which a whole log has no record
        (7500350, "full"),  # a deposed leader's log ended below the position
        (9983658, "full"),  # its commits were dropped, and what came after them went with the only disk
        (7200039, "full"),  # a wiped broker was elected and never led, and the last of those in sync was wiped then
        (10300330, "clients alone"),  # after a wrong answer a right one looks wrong
        (10204674, "full"),  # of one partition one wrong answer was lawful, and another was not
        (10400250, "full"),  # the offset of a commit without an answer, whose records all stand below a later one
        (10400770, "clients alone"),  # a member read of a deposed leader, and nobody recorded who led
    ),
    SETTINGS: (
        (4000122, "no epochs, no books"),  # the damage was found when another one led already
        (7400283, BEFORE_EPOCHS.name),  # one without its log's end was elected and never led, and others had it
        (7500459, "full"),  # who had it was counted on no more, and retention removed its place in the end
        (10204803, BEFORE_EPOCHS.name),  # acks=1: one without it was elected, and the last who had it left the ISR
        (7400535, "full"),  # its tail was lost with the power, and its leader was elected while it was down
        (10400771, BEFORE_EPOCHS.name),  # acknowledged while its leader was deposed, or just before
    ),
    CLEANING: (
        (8000279, "full"),  # sent again, its earlier copies were compacted away for the last one
        (8100151, "nothing of states"),  # without elections, what is gone was compacted away as the last of its key
        (8100207, "full"),  # a replica that was damaged had compacted its log before
        (9500216, "late clocks"),  # nobody knows whether a log was cut for its damage before another was elected
        (9510555, "full"),  # of a record that was sent again both copies may have been compacted away for a later one
        (10401151, "full"),  # the last of its key was compacted away against the promise, and so was the one before it
        (10401431, "full"),  # a later one of its key had been compacted at one of its places, and was lost from another
        (41000735, "no epochs, no books"),  # which of two had its offset last, retention had removed both: nobody told
        (41002351, "full"),  # a later one of its key stands below it, and its copy above it was lost, too
        (41002351, "no books"),
        (44000030, "full"),  # the next one of its key was sent when one without it led already
        (44000030, "no journals"),
        (44000166, "full"),
        (44021134, "no books, no journals"),  # sent again, it stood at its place in the next epoch, too
    ),
    PROCESSING: (
        (32002113, "full"),  # whoever replaced its member was told a position above the end of a log that had been cut
        (32001061, "full"),  # an earlier commit of it was lawfully lost, and the last one was never applied
        (31003651, "full"),  # told before its commit had to be seen, and again after that had lawfully gone
        (21000773, "full"),  # its commit was sent again, and stands twice in the log
        (
            14001581,
            "full",
        ),  # its marker in the offsets' log went with an allowed unclean election, and the next commits
        (
            10403917,
            "full",
        ),  # its record and its marker stand in a log, and a later commit of it was lost with an election
        (4, "full"),  # an application whose results do not name their inputs
        (10403125, "full"),  # aborted, by its marker in a whole log, and its client was not told
        (10404661, "full"),  # after a loss that was lawful an answer that none excuses
        (11000621, "full"),  # aborted after a lawful loss of an older marker of its producer
        (11001193, "full"),  # inputs were read again by a member whose position an allowed unclean election took
        (11000389, "full"),  # its coordinator forgot it, and its record had gone before
        (8000381, "full"),  # the only copy of the coordinator's log was damaged
        (8100013, "no reads"),  # nobody recorded what the group read
        (8100357, "full"),  # what stands before an offset that was shown is overwritten
        (9000370, "full"),  # of two commits one was lawfully lost, and not the one before it
        (9010112, "nothing of states"),  # an allowed unclean election of the decisions' log alone
        (9010308, "full"),  # of one torn transaction one record is hidden, and others are lost
        (9040384, "full"),  # done twice, for a decision went in an unclean election that was forbidden
        (9020201, "full"),  # outputs that a forgotten decision hid
        (9000702, "full"),  # an input was lost, and another one got its offset
        (9040300, "full"),  # a producer that was replaced long before was at it still, and its epoch was kept
        (9981341, "full"),  # a marker went with the power of one of two, who was elected as if he had it
        (9982525, "full"),
        (9981125, "full"),  # what stood above a damaged batch was left to it alone
        (10205845, "full"),  # its decision was lawfully lost, and its offset's record against the promise
        (9040447, "full"),  # the coordinator forgot that it had begun, and wrote down that it began again
        (41003893, "full"),  # its record is in the log, and its marker went with the only disk, for another one's abort
        (41004549, "full"),  # told too little before an allowed unclean election took its decision, and after that
        (41003989, "full"),  # an allowed unclean election took nothing: its record and its marker stand in the logs
        (41004469, "full"),  # its client committed again at the time at which it was answered, and the log is lost
        (42000157, "full"),  # what was forgotten of a replaced producer's epoch harms no later one
        (42000376, "full"),  # the same, of the id's only producers
        (43000329, "full"),  # hidden: lost markers of other partitions excuse nothing
        (43000520, "full"),  # its member went back under a cut log, and to the same offset again after an abort
        (42000604, "full"),  # the record of an aborted commit is that of none that was asked for a second later
        (45003381, "full"),  # its record was lawfully lost, and its decision against the promise
    ),
    IN_FLIGHT: (
        (46002213, "full"),  # lost from two places, from one of them lawfully
        (45000452, "full"),  # an election cost all three, and put none of them below the other
        (70, "full"),  # below one that was cut, and below one that it overtook
        (71, "full"),
        (85, "full"),
        (9900100, "full"),  # its own process's records above it were lawfully lost, and another's were not
        (9900276, "full"),
        (10403860, "full"),  # a deposed leader wrote anew within its epoch, and its successor had cut its own log
        (9970420, "full"),  # another record of its epoch had its place, and was dropped before it was sent
    ),
}

DECIDED = (
    (CLEANING, 10201463),  # acknowledged below a minimum that had been raised: nobody asks whether its leader had heard
    (CLEANING, 8100311),  # a later one of its key was lost with it, and the log that had both was not compacted before
    (TRANSACTIONS, 5000029),  # hidden by a reversed marker, below the last stable offset
    (TRANSACTIONS, 5000065),
    (TRANSACTIONS, 9970281),  # hidden: its decision went with the power of the coordinator's only log
    (PROCESSING, 9981541),
    (PROCESSING, 9980253),  # the records of offsets in transactions, and their markers, went with the power of all
    (PROCESSING, 9980485),  # whoever was elected had lost it on its disk, and was down all the while
    (PROCESSING, 10204093),  # whoever was elected had been read with it, was down by then, and was wiped afterwards
    (RECORDS, 6000040),  # dropped by its leader before an unclean election, and one in sync had it still
    (RECORDS, 6000576),  # an elected leader was read with it and wiped before it began to lead
    (GROUPS, 7200252),  # a batch of the offsets' log was damaged below the commit
    (GROUPS, 7200899),  # the end of the offsets' log was lost on the only disk in sync
)

# All that followed from what was lawfully lost is permitted, and nothing is open.
LAWFUL = ((PROCESSING, 41003893),)  # a damaged disk took a marker, so that a member was told too little, and went back


@pytest.mark.timeout(600)
def test_what_follows_from_what_was_lawfully_lost_is_no_open_question(
    spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory
) -> None:
    cases = [(history(seed, name), FULL) for name, seed in LAWFUL]
    found = judged(spark, tmp_path_factory.mktemp("lawful"), cases)
    assert [one.judgement.verdict for one in found] == [Verdict.PASS] * len(cases)


@pytest.mark.timeout(600)
def test_what_stayed_undecided_once_with_full_evidence_is_decided(
    spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory
) -> None:
    cases = [(history(seed, name), FULL) for name, seed in DECIDED]
    found = tally(judged(spark, tmp_path_factory.mktemp("decided"), cases))
    assert (found.undecided.total(), found.wrong) == (0, [])
    assert found.asked > 10


@pytest.mark.parametrize("name", PINNED)
@pytest.mark.timeout(600)
def test_what_was_judged_wrongly_once_is_not_again(
    spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    cases = [(history(seed, name), _SIGHTS[sight]) for seed, sight in PINNED[name]]
    found = tally(judged(spark, tmp_path_factory.mktemp(name), cases))
    assert not found.wrong, "\n".join(each.text for each in found.wrong)
