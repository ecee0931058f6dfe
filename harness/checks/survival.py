"""Whether a record outlived an event: the one place that decides what an excuse can have cost.

A record that is seen *downstream* of an election or of a destruction was not lost by it. Downstream of an election is
a copy in the log of its leader or of a later one, one on a follower whose log has the election's epoch beginning where
the leader's does, a later record of the same epoch in such a log (a log that has the later one has the earlier one too:
Raft's log matching, which KIP-101 brought to Kafka), and a read that only such a leader can have answered. Downstream
of a destruction is a copy on a replica that is in sync afterwards, and a read. A deposed or dead replica's own copy
proves nothing.

The other way round, a leader whose log lacks the record while it leads shows that it was gone by then: no later
event took it. So only what happened between the last sighting and the first evidence of absence is asked for a cause.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from harness.checks.elections import Election, Snapshot, committed_copies
from harness.checks.fates import Copy, EpochRead, Fate
from harness.checks.story import PartitionStory, holds_up
from harness.checks.watermarks import marks_of

SECOND_NS = 10**9
# How long a client may hold a record that it has fetched before it hands it out: pollers poll in a tight loop.
READ_AHEAD_NS = SECOND_NS
# How soon a leader that nothing holds up has heard of its successor.
LEARN_NS = SECOND_NS
# After one of these a node is a new incarnation, or none: it does not go on leading in an old epoch.
_ENDING = frozenset(
    {"kill", "crash", "stop", "shut-down", "wipe", "disk-loss", "power-loss", "damage", "rolling-restart"}
)


@dataclass(frozen=True, kw_only=True)
class Window:
    """Where the cause of a loss is to be looked for.

    after_epoch, after_t: it was there in the line of that epoch's leader, and at that time. doubt_epoch, doubt_t: the
    same of sightings that may have been a deposed leader's. until_epoch, until_t: by then it was gone.
    """

    after_epoch: int
    after_t: int
    doubt_epoch: int
    doubt_t: int
    until_epoch: int | None
    until_t: int | None

    def admits(self, election: Election) -> bool:
        return election.epoch > self.after_epoch and (self.until_epoch is None or election.epoch <= self.until_epoch)


class Survival:
    """Sightings of the records of one partition. `reads`: what readers saw, by epoch."""

    def __init__(self, story: PartitionStory, reads: Sequence[EpochRead] = ()) -> None:
        self._story = story
        self._reads = reads
        self._logs = {log.number: log for log in story.logs if log.row.get("snapshot") is not None}

    # -- elections ----------------------------------------

    def had(self, election: Election, fate: Fate) -> bool | None:
        """Whether the leader's log had the record when it took over; None where nothing recorded tells."""
        by_epochs = election.had(fate.offset, fate.epoch)
        if election.ends_at_or_below(fate.offset) or (by_epochs and fate.matched):
            return by_epochs
        if fate.offset is not None and self._wrote_at_or_below(election, fate.offset, fate):
            return False
        told = {self._log_tells(log, election, fate) for log in self._story.logs}
        if True in told:  # a record that is there says more than a checkpoint
            return True
        if by_epochs is False or False in told:
            return False
        if fate.epoch is not None and fate.offset is not None and self._cut_by_its_word(election, fate.offset):
            return False
        return False if fate.offset is not None and self._ended_below_already(election, fate.offset) else None

    def _ended_below_already(self, election: Election, offset: int) -> bool:
        """A log ends no sooner than before, but for cuts and lost disks: where it led again from there, it ended there.

        Only where the leader told its later log end itself, for then it would have told a cut, too.
        """
        story, leader = self._story, election.leader
        later = (each for each in story.elections if each.leader == leader and each.epoch > election.epoch)
        again = next(later, None)
        if again is None or again.start_from.source != "journal" or not again.ends_at_or_below(offset):
            return False
        begin, end = election.earliest_t, again.latest_t
        cut = any(
            each.node == leader and each.to_offset <= offset and begin <= each.t <= end for each in story.truncations
        )
        return not cut and not any(begin <= loss.t <= end for loss in story.losses_by_node.get(leader, ()))

    def _wrote_at_or_below(self, election: Election, offset: int, fate: Fate) -> bool:
        """A leader appends at its log end: a record of its epoch at or below the offset shows that it ended there."""
        if any(copy.epoch == election.epoch for copy in fate.others):
            return True
        return any(read.epoch == election.epoch and read.first_offset <= offset for read in self._reads)

    def _log_tells(self, log: Snapshot, election: Election, fate: Fate) -> bool | None:
        if not log.is_whole or fate.offset is None:
            return None
        holds = any(copy.snapshot == log.number and _same(copy.epoch, fate.epoch) for copy in fate.copies)
        begins = log.start_of(election.epoch)
        if begins is not None and fate.offset < begins:
            # Below its own epoch's start a leader's log is as it was when it took over.
            if log.node == election.leader:
                return True if holds else False if log.spans(fate.offset) else None
            return True if holds and election.start in (None, begins) else None
        in_reign = self._story.reign_at(log.t) is election
        if log.node == election.leader and in_reign:
            return True if holds else None  # it may have lost it while it led
        joined = self._story.joined(log.node, log.t)
        caught_up = in_reign and joined > election.latest_t and self._story.is_in_sync(log.node, log.t)
        return True if holds and caught_up and election.start is None else None

    def _cut_by_its_word(self, election: Election, offset: int) -> bool:
        """Followers of a clean leader cut what its log lacks; after an unclean election old ones cut to their marks."""
        return not election.unclean and any(
            cut.epoch == election.epoch and cut.to_offset <= offset < cut.from_offset for cut in self._story.truncations
        )

    # -- the window ---------------------------------------

    def window(self, fate: Fate) -> Window:
        epoch = -1 if fate.epoch is None else fate.epoch
        after, doubt = epoch, epoch
        for election in self._story.elections:
            if election.epoch > epoch and self.had(election, fate):
                after = max(after, election.epoch)
        sure, maybe = self._read_under(fate)
        if self._stands_beside_the_final_log(fate) and self._story.elections:
            after = max(after, self._story.elections[-1].epoch)
        after, doubt = max(after, sure), max(doubt, maybe)
        after_t, doubt_t = self._seen_until(fate)
        until_epoch, until_t = self._gone_by(fate, epoch, after, after_t)
        return Window(
            after_epoch=after, after_t=after_t, doubt_epoch=max(after, doubt), doubt_t=max(after_t, doubt_t),
            until_epoch=until_epoch, until_t=until_t,
        )  # fmt: skip

    def _read_under(self, fate: Fate) -> tuple[int, int]:
        """Epochs: under which leader it was surely read, and under which it may have been."""
        t = fate.t_last_read
        if t is None:
            return -1, -1
        begun = list(takewhile(lambda election: election.earliest_t <= t, self._story.elections))
        maybe = -1
        for election in reversed(begun):  # no further back than to one that is sure
            another = self.may_answer_for_another(election, t)
            # A leader does not get back what it lacked.
            if maybe < 0 and (not another or self.had(election, fate) is not False):
                maybe = election.epoch
            if election.latest_t + READ_AHEAD_NS <= t and not another:
                return election.epoch, maybe
        return -1, maybe

    def may_answer_for_another(self, election: Election, t: int) -> bool:
        """Whether a leader deposed before this election may not have known it, and have answered readers, at `t`."""
        return bool(self.epochs_that_may_go_on(election, t))

    def epochs_that_may_go_on(self, election: Election, t: int) -> list[int]:
        """Those in which a deposed leader may have gone on leading at `t`, as far as it knew."""
        earlier = [each for each in self._story.elections if each.epoch < election.epoch]
        led = {each.leader: each.epoch for each in earlier if each.leader != election.leader}
        return sorted(epoch for node, epoch in led.items() if self._may_still_lead(node, epoch, t))

    def _may_still_lead(self, node: int, led: int, t: int) -> bool:
        deposed = next(each for each in self._story.elections if each.epoch > led)
        if self._has_learned(node, led, deposed, t):
            return False
        touching = [row for row in self._story.faults_between(deposed.earliest_t, t) if node in (row["nodes"] or ())]
        if any(row["kind"] in _ENDING for row in touching):
            return False
        if any(row["kind"] == "pause" and (row["t_end"] is None or row["t_end"] > t) for row in touching):
            return False
        return t < deposed.latest_t + LEARN_NS or any(holds_up(row, node) for row in touching)

    def _has_learned(self, node: int, led: int, deposed: Election, t: int) -> bool:
        if self._story.joined(node, t) > deposed.latest_t:
            return True
        for row in self._story.events:
            if row["node"] != node or not deposed.earliest_t <= row["t"] <= t:
                continue
            later = row["epoch"] is not None and row["epoch"] > led
            if later or row["event"] in ("leadership_end", "broker_start", "broker_registered"):
                return True
        return False

    def _stands_beside_the_final_log(self, fate: Fate) -> bool:
        """Whether the final log has records of its epoch on both sides: then the last leader's line had it too."""
        if not fate.matched or fate.epoch is None or fate.offset is None:
            return False
        return any(
            read.is_final and read.epoch == fate.epoch and read.first_offset <= fate.offset <= read.last_offset
            for read in self._reads
        )

    def _seen_until(self, fate: Fate) -> tuple[int, int]:
        """When a copy was last seen where it counts, on a replica in sync or by a reader; and when it may have been."""
        sure = maybe = fate.t_acknowledged or 0
        for copy in fate.copies:
            log = self._logs.get(copy.snapshot)
            counts = log is not None and log.is_whole and _same(copy.epoch, fate.epoch)
            if log is not None and counts and self._story.is_in_sync(log.node, log.t):
                sure = max(sure, log.t - 1)  # what a disk held is read before it is destroyed, even at the same moment
        if fate.t_last_read is not None:
            maybe = max(maybe, fate.t_last_read)
            reign = self._story.reign_at(fate.t_last_read)
            if reign is not None and not self.may_answer_for_another(reign, fate.t_last_read):
                sure = max(sure, fate.t_last_read - READ_AHEAD_NS)
        if self._stands_beside_the_final_log(fate):
            sure = _END_OF_TIME
        return sure, max(sure, maybe)

    # -- absence ------------------------------------------

    def _gone_by(self, fate: Fate, epoch: int, after: int, after_t: int) -> tuple[int | None, int | None]:
        """(epoch, time): under whose leader it was gone, as its log or another record in its place shows."""
        # An unclean election may have brought it back, where nothing tells that it did not.
        back = [each.epoch for each in self._story.elections if each.unclean and self.had(each, fate) is None]
        since = max([epoch, after, *back])
        epochs = [copy.epoch for copy in self._successors(fate) if copy.epoch is not None and copy.epoch >= since]
        times = []
        for log, led_in in self._leaders_logs:
            if led_in < since or log.t <= after_t or fate.offset is None or not log.spans(fate.offset):
                continue
            if not any(copy.snapshot == log.number for copy in fate.copies):
                epochs.append(led_in)
                times.append(log.t)
        for cut in self._story.truncations:
            state = self._story.state_at(cut.t)
            if fate.offset is None or state is None or not cut.to_offset <= fate.offset < cut.from_offset:
                continue
            # What a leader cut, or the only one that had to have it, is gone, whoever is elected afterwards.
            reign = self._story.reign_at(cut.t)
            leads = reign is not None and reign.leader == cut.node == state["leader"]
            decides = leads or committed_copies(state) == (cut.node,)
            if cut.t > after_t and decides and state["leader_epoch"] >= since:
                epochs.append(state["leader_epoch"])
                times.append(cut.t)
        return min(epochs, default=None), min(times, default=None)

    def _successors(self, fate: Fate) -> Iterator[Copy]:
        """Records that had its place after it: of a later epoch, or of its own and seen later than its own copies."""
        if fate.epoch is None:
            return
        last = max((log.t for copy in fate.copies if (log := self._logs.get(copy.snapshot))), default=-1)
        for copy in fate.others:
            log = self._logs.get(copy.snapshot)
            later = log is not None and log.t > last
            if copy.epoch is not None and (copy.epoch > fate.epoch or (copy.epoch == fate.epoch and later)):
                yield copy

    @cached_property
    def _leaders_logs(self) -> Sequence[tuple[Snapshot, int]]:
        """Snapshots of leaders while they surely led, each with its epoch, in order of time."""
        return tuple(self._led())

    def _led(self) -> Iterator[tuple[Snapshot, int]]:
        for log in self._story.logs:
            reign = self._story.reign_at(log.t)
            state = self._story.state_at(log.t)
            leads = reign is not None and state is not None and state["leader"] == log.node == reign.leader
            if reign is not None and leads and log.is_whole:
                yield log, reign.epoch

    # -- what decides -------------------------------------

    @cached_property
    def offsets(self) -> Sequence[int]:
        """Every offset that a ruling compares a record's with, in order."""
        story, found = self._story, set[int]()
        for election in story.elections:
            found |= {election.start or 0, *(start for _, start in election.chain or ())}
        for log in story.logs:
            marks = (log.row.get("log_start"), log.row.get("log_end"), log.row.get("high_watermark"))
            found |= {mark for mark in marks if mark is not None} | {start for _, start in log.chain}
        for cut in story.truncations:
            found |= {cut.from_offset, cut.to_offset}
        for read in self._reads:
            found |= {read.first_offset, read.last_offset}
        found |= {row["to_offset"] for row in marks_of(story)}
        for loss in story.disk_losses:
            found |= {place for place in (loss.event.from_offset, loss.event.to_offset) if place is not None}
        return sorted(found | {story.log_start or 0})

    @cached_property
    def times(self) -> Sequence[int]:
        """Every time that a ruling compares a record's times with, in order."""
        story = self._story
        found = {row["t"] for row in (*story.states, *story.events)} | {log.t for log in story.logs}
        found |= {cut.t for cut in story.truncations} | {loss.t for loss in story.disk_losses}
        for election in story.elections:
            edges = (election.earliest_t, election.latest_t)
            found |= {edge + apart for edge in edges for apart in (0, READ_AHEAD_NS, LEARN_NS)}
        for loss in story.disk_losses:
            found.add(loss.t + READ_AHEAD_NS)
        for log in story.logs:
            found.add(log.t + READ_AHEAD_NS)
        return sorted(found)


_END_OF_TIME = 2**62


def _same(copy: int | None, epoch: int | None) -> bool:
    """Whether a copy is of the record's epoch, as far as both are known."""
    return copy is None or epoch is None or copy == epoch
