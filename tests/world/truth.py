"""What really took each lost record, and whether the promise allows it: read from the chronicle, not from evidence.

A record is in the legitimate line while a member of the controller's ISR, or the leader that the controller named,
holds it. What took it is the last happening after which nobody there did; when that is a follower or a shrunken ISR
following a leader without the record, it is whatever left that leader without it. So a record that came through an
event (it was there afterwards) was not taken by it, whatever the event might have cost.

Allowed are (1) an unclean election that the topic's configuration permitted at that moment, (2) for what was
acknowledged with acks=1 and was never told to be committed, leadership that moved to a log without it, and (3) the
destruction of every in-sync copy: every member of the ISR had a copy that a lost disk, lost power or a damaged batch
took, after it last joined.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import Enum

from tests.world.chronicle import (
    DESTROYED,
    Appended,
    Cause,
    Checkpointed,
    Chronicle,
    Committed,
    Cut,
    Entry,
    Happening,
    Led,
    Node,
    Partition,
    Removed,
    Send,
)
from tests.world.clients import OK
from tests.world.compaction import compacted, ever_compacts, last_of_keys, sends_by_key, with_a_later_one
from tests.world.visibility import BLUR_NS


class Verdict(Enum):
    VIOLATION = "violation"
    PERMITTED = "permitted"
    UNSAID = "unsaid"  # the promise does not say; nothing is asked of the checks
    OPEN = "open"  # nobody can tell, and the verdict has to say so


@dataclass(frozen=True, kw_only=True)
class Lost:
    """`fate`: in a word what took it; `time_ns`: when; `story`: for people."""

    value: int
    partition: Partition
    offset: int
    acks: int
    verdict: Verdict
    fate: str
    time_ns: int
    story: str
    was_answered: bool  # acknowledged by its leader alone, but below a high watermark that was told
    read: bool  # acknowledged by its leader alone, but read
    shown_by: Set[str] = frozenset()  # what alone shows that it was gone before an election that everybody saw
    in_no_log_with_a_later_one: bool = False  # of its key: only logs and the time of the election show it

    @property
    def answered_only(self) -> bool:
        return self.was_answered and not self.read


@dataclass(kw_only=True)
class _Copies:
    """The state of one partition as the chronicle is replayed."""

    logs: dict[Node, dict[int, Entry]] = field(default_factory=dict)
    isr: tuple[Node, ...] = ()
    leader: Node = -1
    epoch: int = -1
    joined: dict[Node, int] = field(default_factory=dict)

    def holders(self, offset: int, value: int) -> set[Node]:
        members = {*self.isr, self.leader} - {-1}
        return {node for node in members if self.has(node, offset, value)}

    def has(self, node: Node, offset: int, value: int) -> bool:
        entry = self.logs.get(node, {}).get(offset)
        return entry is not None and entry.value == value


@dataclass(kw_only=True)
class _Trail:
    """What the replay has seen of one lost record. `gone`: the happening after which the line had it no more."""

    send: Send
    value: int
    offset: int
    held: bool = False
    ever: bool = False
    gone: "_Gone | None" = None
    emptied: "_Gone | None" = None  # the happening itself, also where it only followed another
    leader_without: "_Gone | None" = None  # since when, and why, the leader in office has not had it
    elected_without: "_Gone | None" = None  # the election of one that has not got it and has not begun to lead
    destroyed: dict[Node, int] = field(default_factory=dict)  # who lost a copy to a disaster, and when
    unnoticed: set[Node] = field(default_factory=set)  # of those: to one that no directory id tells
    had: set[Node] = field(default_factory=set)
    was_answered: bool = False  # below a high watermark that a holder told
    read: bool = False  # by a consumer
    removed: bool = False  # while the leader had it, its log's start went above it

    @property
    def weak(self) -> bool:
        """Acknowledged by its leader alone, and nobody was ever told that it was committed."""
        return self.send.acks != -1 and not self.was_answered and not self.read

    @property
    def covered(self) -> int:
        """From when on a disaster that reaches the offset counts, also on a replica that should have had it."""
        return self.send.completed_ns


@dataclass(frozen=True, kw_only=True)
class _Gone:
    happening: Committed | Cut
    isr: tuple[Node, ...]  # before
    unscathed: tuple[Node, ...]  # members of it that no disaster robbed of their copy


def lost_records(chronicle: Chronicle) -> list[Lost]:
    found = []
    for partition, final in chronicle.final.items():
        if not final.read_to_end:
            continue
        there = {entry.value for entry in final.unread}
        for poll in chronicle.polls:
            if poll.final:
                there |= {entry.value for read in poll.reads if read.partition == partition for entry in read.entries}
        sends = [send for send in chronicle.sends if send.partition == partition and _is_promised(chronicle, send)]
        lost = fates(chronicle, partition, sends, there, final.log_start or 0)
        found += _perhaps_replaced_in_a_log(chronicle, partition, lost)
        found += _removed_unasked(chronicle, partition, sends, final.log_start or 0)
    return found


def perhaps_replaced(
    chronicle: Chronicle, partition: Partition, lost: Sequence[Lost], *, missing: Sequence[Lost]
) -> list[Lost]:
    """Nobody can tell what else took a record where compaction may have: it was promised that the last one stays."""
    if not ever_compacts(chronicle, partition):
        return list(lost)
    last = last_that_count(chronicle, partition, missing)
    return [replace(each, verdict=Verdict.UNSAID) if _is_below(each, last, chronicle) else each for each in lost]


def _perhaps_replaced_in_a_log(chronicle: Chronicle, partition: Partition, lost: Sequence[Lost]) -> list[Lost]:
    """The same, but no log was compacted for a later one that stood in another, and was sent when this one was gone."""
    beside = with_a_later_one(chronicle, partition, {(each.offset, each.value) for each in lost})
    begun = sends_by_key(chronicle, partition)
    late = {
        (each.offset, each.value)
        for each in lost
        for offset, sent_ns in begun.get(chronicle.keys.get(each.value, -1), ())
        if offset > each.offset and sent_ns <= each.time_ns + 2 * BLUR_NS
    }
    return [
        replace(each, in_no_log_with_a_later_one=True)
        if perhaps.verdict is not each.verdict and (each.offset, each.value) not in beside | late
        else perhaps
        for each, perhaps in zip(lost, perhaps_replaced(chronicle, partition, lost, missing=lost), strict=True)
    ]


def last_that_count(chronicle: Chronicle, partition: Partition, missing: Sequence[Lost]) -> dict[int, int]:
    """The highest offset of each key of a record that is there, or is missed against the promise, which is told of it:
    one whose loss is itself a violation, or that was acknowledged and compacted away unlawfully."""
    last = last_of_keys(chronicle, partition)
    missed = [(each.offset, each.value) for each in missing if each.verdict is Verdict.VIOLATION]
    missed += compacted(chronicle, lawful=False) - compacted(chronicle, lawful=True)
    mine = {
        value for send in chronicle.sends if send.partition == partition and send.status == OK for value in send.values
    }
    for offset, value in missed:
        if value in mine and value in chronicle.keys:
            key = chronicle.keys[value]
            last[key] = max(last.get(key, -1), offset)
    return last


def _is_below(lost: Lost, last: Mapping[int, int], chronicle: Chronicle) -> bool:
    return last.get(chronicle.keys.get(lost.value, -1), -1) > lost.offset


def _removed_unasked(chronicle: Chronicle, partition: Partition, sends: Sequence[Send], start: int) -> list[Lost]:
    """Below the log's start, which neither a setting nor a request moved there."""
    removals = [each for each in chronicle.happenings if isinstance(each, Removed) and each.partition == partition]
    unasked = [each for each in removals if not each.asked]
    if not unasked or start == 0:
        return []
    given = {e.value for poll in chronicle.polls if poll.final for read in poll.reads for e in read.entries}
    return [
        Lost(
            value=value,
            partition=partition,
            offset=send.base + place,
            acks=send.acks,
            fate="removed-unasked",
            verdict=Verdict.VIOLATION if send.acks == -1 else Verdict.UNSAID,
            time_ns=unasked[-1].time_ns,
            story=f"the log starts at {start} and nobody asked for that",
            was_answered=False,
            read=False,
        )
        for send in sends
        if send.status == OK and send.base is not None
        for place, value in enumerate(send.values)
        if send.base + place < start and value not in given
    ]


def _is_promised(chronicle: Chronicle, send: Send) -> bool:
    """What an open or aborted transaction wrote is promised to nobody."""
    return send.transaction is None or chronicle.transactions[send.transaction].outcome == OK


def fates(chronicle: Chronicle, partition: Partition, sends: Sequence[Send], there: Set[int], start: int) -> list[Lost]:
    """What became of the acknowledged records of a partition that are not `there`, and were not compacted away."""
    return _fates(chronicle, partition, [each for each in _trails(chronicle, sends, there) if each.offset >= start])


def lost_before_removal(chronicle: Chronicle) -> list[Lost]:
    """Below the logs' starts in the end: nobody misses such a record, but what followed from its loss is seen."""
    found = list[Lost]()
    for partition, final in chronicle.final.items():
        sends = [send for send in chronicle.sends if send.partition == partition and _is_promised(chronicle, send)]
        below = [each for each in _trails(chronicle, sends, set()) if each.offset < (final.log_start or 0)]
        found += _fates(chronicle, partition, below)
    return found


def _trails(chronicle: Chronicle, sends: Sequence[Send], there: Set[int]) -> list[_Trail]:
    gone = compacted(chronicle)
    return [
        _Trail(send=send, value=value, offset=send.base + place)
        for send in sends
        if send.status == OK and send.base is not None
        for place, value in enumerate(send.values)
        if value not in there and (send.base + place, value) not in gone
    ]


def _fates(chronicle: Chronicle, partition: Partition, trails: Sequence[_Trail]) -> list[Lost]:
    if not trails:
        return []
    happenings = [each for each in chronicle.happenings if getattr(each, "partition", None) == partition]
    _replay(happenings, trails)
    _reads(chronicle, partition, trails)
    looked_at = [(each.node, each.time_ns) for each in chronicle.snapshots if each.partition == partition]
    found = ((trail, _judged(trail, partition, happenings, looked_at)) for trail in trails if not trail.removed)
    return [_perhaps_forfeited(trail, lost) for trail, lost in found]


def _perhaps_forfeited(trail: _Trail, lost: Lost) -> Lost:
    """Nothing permits the loss of what was acknowledged below min.insync.replicas, if its leader knew that."""
    if lost.verdict is not Verdict.PERMITTED or not trail.send.perhaps_below:
        return lost
    return replace(lost, verdict=Verdict.UNSAID, fate="perhaps-below-minimum", story=f"few in sync; {lost.story}")


def _reads(chronicle: Chronicle, partition: Partition, trails: Sequence[_Trail]) -> None:
    read = {
        (offset, entry.value)
        for poll in chronicle.polls
        if not poll.final
        for read in poll.reads
        if read.partition == partition
        for offset, entry in read.placed()
    }
    for trail in trails:
        trail.read |= (trail.offset, trail.value) in read


def _replay(happenings: Sequence[Happening], trails: Sequence[_Trail]) -> None:
    copies = _Copies()
    for happening in happenings:
        before_isr = copies.isr
        unscathed = (
            {id(trail): tuple(node for node in before_isr if not _robbed(trail, node, copies)) for trail in trails}
            if isinstance(happening, Committed | Cut)
            else {}
        )
        touched = _apply(copies, happening)
        for trail in trails:
            if trail.removed:
                continue
            if isinstance(happening, Removed):
                trail.removed = happening.to > trail.offset and copies.has(copies.leader, trail.offset, trail.value)
            elif isinstance(happening, Led):
                _begins(trail, copies, happening)
            elif isinstance(happening, Checkpointed):
                held = copies.has(happening.node, trail.offset, trail.value)
                trail.was_answered |= held and happening.high_watermark > trail.offset
            elif touched is None or touched[0] <= trail.offset < touched[1]:
                _follow(trail, copies, happening, before_isr, unscathed)


def _robbed(trail: _Trail, node: Node, copies: _Copies) -> bool:
    at = trail.destroyed.get(node)
    has = copies.has(node, trail.offset, trail.value)
    return not has and at is not None and at > copies.joined.get(node, -1)


def _apply(copies: _Copies, happening: Happening) -> tuple[int, int] | None:
    """Changes the copies; answers which offsets that touched, None for all."""
    match happening:
        case Appended():
            log = copies.logs.setdefault(happening.node, {})
            for place, entry in enumerate(happening.entries):
                log[happening.offset + place] = entry
            return happening.offset, happening.offset + len(happening.entries)
        case Cut():
            log = copies.logs.setdefault(happening.node, {})
            for offset in [offset for offset in log if offset >= happening.to]:
                del log[offset]
            return happening.to, 2**62
        case Committed():
            state = happening.state
            for node in state.isr:
                if node not in copies.isr:
                    copies.joined[node] = happening.time_ns
            copies.isr, copies.leader, copies.epoch = state.isr, state.leader, state.epoch
            return None
        case _:
            return 0, 0


def _follow(
    trail: _Trail,
    copies: _Copies,
    happening: Happening,
    isr: tuple[Node, ...],
    unscathed: dict[int, tuple[Node, ...]],
) -> None:
    offset, value = trail.offset, trail.value
    if isinstance(happening, Appended) and copies.has(happening.node, offset, value):
        trail.had.add(happening.node)
    if isinstance(happening, Cut):
        if happening.cause in DESTROYED and (happening.node in trail.had or happening.time_ns > trail.covered):
            trail.destroyed[happening.node] = happening.time_ns
            (trail.unnoticed.discard if happening.cause is Cause.WIPED else trail.unnoticed.add)(happening.node)
        trail.had.discard(happening.node)
    leader_has = copies.leader >= 0 and copies.has(copies.leader, offset, value)
    changes = isinstance(happening, Committed | Cut)
    if changes:
        assert isinstance(happening, Committed | Cut)
        gone = _Gone(happening=happening, isr=isr, unscathed=unscathed[id(trail)])
        if isinstance(happening, Cut):
            # The one it happened to had its copy until now, and a disaster may be what took it.
            mine = happening.cause in DESTROYED and trail.destroyed.get(happening.node) == happening.time_ns
            if mine:
                others = tuple(node for node in gone.unscathed if node != happening.node)
                gone = _Gone(happening=happening, isr=isr, unscathed=others)
        elects = isinstance(happening, Committed) and _elects(happening)
        if elects:
            trail.elected_without = None if leader_has else gone
        if leader_has or elects:
            trail.leader_without = None
        elif isinstance(happening, Cut) and happening.node == copies.leader and trail.leader_without is None:
            trail.leader_without = gone
        held = bool(copies.holders(offset, value))
        if trail.held and not held:
            # Who only followed lost nothing of its own: whatever left its leader without the record did that.
            followed = not (isinstance(happening, Cut) and happening.cause is not Cause.FOLLOWED)
            # Nor did a follower's disk, once a leader without the record had been elected: it was gone by then.
            without = trail.leader_without
            followed |= without is not None and isinstance(without.happening, Committed)
            trail.emptied = gone
            trail.gone = trail.leader_without if followed and trail.leader_without is not None else gone
        trail.held = held
    elif copies.holders(offset, value):
        trail.held = True
        if leader_has:
            trail.leader_without = None
    trail.ever |= trail.held


def _begins(trail: _Trail, copies: _Copies, happening: Led) -> None:
    """Only who leads makes others cut what it has not got: until then somebody else may yet be elected with it."""
    in_office = (happening.node, happening.epoch) == (copies.leader, copies.epoch)
    if in_office and trail.elected_without is not None and not copies.has(happening.node, trail.offset, trail.value):
        trail.leader_without, trail.elected_without = trail.elected_without, None


def _elects(happening: Committed) -> bool:
    before, state = happening.before, happening.state
    return state.leader >= 0 and before is not None and state.epoch > before.epoch


def _judged(
    trail: _Trail, partition: Partition, happenings: Sequence[Happening], looked_at: Sequence[tuple[Node, int]]
) -> Lost:
    # A member of the ISR may have it still, although it follows a leader that has not: the logs have parted then.
    gone = trail.leader_without if trail.held else trail.gone
    if gone is None or not trail.ever:
        return _never_in_line(trail, partition, happenings)
    weak, happening = trail.weak, gone.happening
    if trail.send.below_minimum:
        story = f"broker {trail.send.acknowledged_by} knew that {trail.send.in_sync} were in sync when it was sent"
        return _lost(trail, partition, Verdict.VIOLATION, "below-minimum", happening.time_ns, story)
    if not weak and trail.emptied is not None and _uninformed(trail.emptied):
        t = trail.emptied.happening.time_ns
        return _lost(trail, partition, Verdict.UNSAID, "clean-of-robbed", t, "sound, uninformed")
    if isinstance(happening, Committed):
        state, before = happening.state, happening.before
        assert before is not None
        moved = state.leader != before.leader
        kind = "unclean" if happening.unclean else "clean"
        story = f"{kind} election of {state.leader} in epoch {state.epoch}, ISR before {list(gone.isr)}"
        if not _elects(happening) and weak and not moved and state.leader not in (-1, trail.send.acknowledged_by):
            story = f"broker {state.leader} had been elected without it, and the last holder left the ISR"
            return _lost(trail, partition, Verdict.PERMITTED, "clean-acks-1", happening.time_ns, story)
        if not _elects(happening):
            # A leader without an epoch of its own is wrong in itself; what acks=1 promises then, nobody says.
            verdict = Verdict.UNSAID if weak and moved else Verdict.VIOLATION
            return _lost(trail, partition, verdict, "in-sync-without", happening.time_ns, "left the ISR as last holder")
        if happening.unclean and happening.allowed:
            return _lost(trail, partition, Verdict.PERMITTED, "unclean-allowed", happening.time_ns, story)
        if weak:
            verdict = Verdict.PERMITTED if moved else Verdict.UNSAID
            return _lost(trail, partition, verdict, f"{kind}-acks-1", happening.time_ns, story)
        if not gone.unscathed:
            return _lost(trail, partition, Verdict.PERMITTED, f"{kind}-destroyed", happening.time_ns, story)
        if not happening.unclean and state.leader not in gone.unscathed and state.leader in trail.unnoticed:
            # Without eligible leader replicas (KIP-966) nobody knows that it lost its tail.
            return _lost(trail, partition, Verdict.UNSAID, "clean-of-robbed", happening.time_ns, story)
        fate = "unclean-forbidden" if happening.unclean else "clean-election"
        return _lost(trail, partition, Verdict.VIOLATION, fate, happening.time_ns, story)
    traces = _traces(happening, happenings, looked_at)
    if traces is not None and not traces:
        # What everybody saw is an election that was allowed and would have taken it as well.
        return _lost(trail, partition, Verdict.UNSAID, "dropped-unseen", happening.time_ns, "then elected uncleanly")
    found = _cut_away(trail, partition, gone, happening, moved=_moves(happenings, trail.send))
    return replace(found, shown_by=traces or frozenset())


def _traces(cut: Cut, happenings: Sequence[Happening], looked_at: Sequence[tuple[Node, int]]) -> Set[str] | None:
    """What shows a flaw's cut before the next election, if that was unclean and allowed; None: there is none such."""
    following = next(
        (each for each in happenings if isinstance(each, Committed) and _elects(each) and each.time_ns > cut.time_ns),
        None,
    )
    if cut.cause is not Cause.DROPPED or following is None or not (following.unclean and following.allowed):
        return None
    seen = any(node == cut.node and cut.time_ns < t < following.time_ns for node, t in looked_at)
    return {name for name, shows in (("journals", cut.journalled), ("disks", seen)) if shows}


def _uninformed(emptied: _Gone) -> bool:
    """The controller counts on nobody any more who is unscathed, though it did before.

    A sound controller may do that when it has not yet heard of a disaster: by the letter of the guarantee one in-sync
    replica was alive, and by the letter of the rules that make it everything was done right.
    """
    happening = emptied.happening
    if not isinstance(happening, Committed) or happening.unclean:
        return False
    return bool(emptied.unscathed) and not set(happening.state.isr) & set(emptied.unscathed)


def _moves(happenings: Sequence[Happening], send: Send) -> bool:
    """Whether leadership ever went from the broker that acknowledged it to another one afterwards."""
    return any(
        isinstance(each, Committed)
        and each.state.leader not in (-1, send.acknowledged_by)
        and each.time_ns > send.invoked_ns
        for each in happenings
    )


def _cut_away(trail: _Trail, partition: Partition, gone: _Gone, cut: Cut, *, moved: bool) -> Lost:
    story = f"broker {cut.node}: {cut.cause.value}, to {cut.to}; in sync and unscathed: {list(gone.unscathed)}"
    if cut.cause in DESTROYED:
        if not gone.unscathed:
            return _lost(trail, partition, Verdict.PERMITTED, f"destroyed-{cut.cause.name.lower()}", cut.time_ns, story)
        if trail.weak and moved:
            return _lost(trail, partition, Verdict.PERMITTED, "disk-then-moved", cut.time_ns, story)
        # Its only copies went with the disks that had them: acks=1 promised no more, but nobody else took over. And who
        # never had it, and came to harm a moment later, may be counted among the destroyed or not.
        harmed = all(trail.destroyed.get(node, -1) > cut.time_ns for node in gone.unscathed)
        verdict = Verdict.UNSAID if trail.weak or harmed else Verdict.VIOLATION
        return _lost(trail, partition, verdict, f"disk-{cut.cause.name.lower()}", cut.time_ns, story)
    # A flaw took it, but where leadership moves later to a log that never had it, that would have taken it as well.
    verdict = Verdict.UNSAID if trail.weak and moved else Verdict.VIOLATION
    fate = {Cause.FOLLOWED: "truncation", Cause.HIGH_WATERMARK: "hw-truncation", Cause.DROPPED: "dropped"}
    return _lost(trail, partition, verdict, fate.get(cut.cause, cut.cause.name.lower()), cut.time_ns, story)


def _never_in_line(trail: _Trail, partition: Partition, happenings: Sequence[Happening]) -> Lost:
    """Acknowledged by a deposed leader: its successor's election took it, or another leader of the same epoch did."""
    epoch = trail.send.acknowledged_in if trail.send.acknowledged_in is not None else -1
    elections = [each for each in happenings if isinstance(each, Committed) and _elects(each)]
    after = [each for each in elections if each.state.epoch > epoch]
    weak = trail.weak
    if not after:
        verdict = Verdict.UNSAID if weak else Verdict.VIOLATION
        return _lost(trail, partition, verdict, "no-successor", trail.send.completed_ns, "no later epoch")
    first = after[0]
    assert first.before is not None
    story = f"deposed leader {trail.send.acknowledged_by} of epoch {epoch}; successor {first.state.leader}"
    if first.before.epoch == epoch and first.before.leader != trail.send.acknowledged_by:
        return _lost(trail, partition, Verdict.UNSAID, "two-leaders", first.time_ns, story)
    if first.unclean and first.allowed:
        return _lost(trail, partition, Verdict.PERMITTED, "zombie-unclean-allowed", first.time_ns, story)
    if weak:
        return _lost(trail, partition, Verdict.PERMITTED, "zombie-acks-1", first.time_ns, story)
    return _lost(trail, partition, Verdict.VIOLATION, "zombie", first.time_ns, story)


def _lost(trail: _Trail, partition: Partition, verdict: Verdict, fate: str, time_ns: int, story: str) -> Lost:
    reported = ""
    if trail.send.acks != -1:
        reported = (
            "; it was read" if trail.read else "; a high watermark above it was told" if trail.was_answered else ""
        )
    return Lost(
        value=trail.value,
        partition=partition,
        offset=trail.offset,
        acks=trail.send.acks,
        verdict=verdict,
        fate=fate,
        time_ns=time_ns,
        story=f"{story}{reported}",
        was_answered=trail.send.acks != -1 and trail.was_answered,
        read=trail.send.acks != -1 and trail.read,
    )
