"""Simulates one partition on three brokers, and knows of every acknowledged record that is gone how it went.

Followers copy from the leader, and cut what it does not have; ISRs shrink and grow; leaders come from the ISR, or from
outside it; disks are lost. Two errors are put in, so that there is something to rule on: acks=all that waits for
nobody, and a leader that forgets its tail when it is restarted. What became of a record is read off the brokers' logs
as they were when each leader took over; the tables have what was cut, and of each new leader where its epochs began.
"""

import random
from dataclasses import dataclass, field

from tests.harness.checks.histories.build import ISR, History

_BROKERS = ISR
Log = list[tuple[int, int]]  # (epoch, value) by offset


@dataclass
class Acknowledged:
    value: int
    offset: int
    epoch: int
    leader: int
    acks: int
    time_ns: float = -1.0  # not yet
    was_read: bool = False
    burnt: list[float] = field(default_factory=list)  # when every member of the ISR lost its disk


@dataclass(frozen=True, kw_only=True)
class TookOver:
    """A leader with its log as it was then."""

    time_ns: float
    epoch: int
    leader: int
    unclean: bool
    log: tuple[tuple[int, int], ...]


class FailOvers:
    """A run of a few dozen steps: `history` has its tables, `sent` and `leaders` what happened."""

    def __init__(self, chance: random.Random, *, steps: int = 60) -> None:
        self._chance = chance
        self.time_ns = 1.0
        self.allowed = chance.random() < 0.5
        self.history = History()
        self.history.unclean_config("true" if self.allowed else "false")
        self.logs: dict[int, Log] = {node: [] for node in _BROKERS}
        self._starts: dict[int, list[tuple[int, int]]] = {node: [] for node in _BROKERS}  # the epoch checkpoints
        self._leader, self._epoch, self._isr = 1, -1, set(_BROKERS)
        self.sent: list[Acknowledged] = []
        self.leaders: list[TookOver] = []
        self._hasty = chance.random() < 0.3
        self._forgetful = chance.random() < 0.3
        self._elect(1, unclean=False)
        acts = [
            self._send,
            self._send,
            self._copy,
            self._copy,
            self._copy,
            self._read,
            self._shrink,
            self._grow,
            self._change,
            self._change,
        ]
        if chance.random() < 0.3:
            acts.append(self._burn)
        for _ in range(steps):
            self.time_ns += 0.1
            chance.choice(acts)()
            self._acknowledge()
        self._finish()

    # -- clients ------------------------------------------

    def _send(self) -> None:
        log, acks = self.logs[self._leader], self._chance.choice((-1, -1, 1))
        self.sent.append(Acknowledged(len(self.sent), len(log), self._epoch, self._leader, acks))
        log.append((self._epoch, len(self.sent) - 1))

    def _replicated(self, record: Acknowledged) -> bool:
        return all(
            self.logs[node][record.offset : record.offset + 1] == [(record.epoch, record.value)] for node in self._isr
        )

    def _acknowledge(self) -> None:
        """By the leader that wrote it, while it leads."""
        for record in self.sent:
            hasty = self._hasty and self._chance.random() < 0.3
            if (
                record.time_ns < 0
                and record.epoch == self._epoch
                and (record.acks == 1 or hasty or self._replicated(record))
            ):
                record.time_ns = self.time_ns

    def _read(self) -> None:
        """Consumers read what every member of the ISR has."""
        for record in self.sent:
            record.was_read |= self._replicated(record)

    # -- replicas -----------------------------------------

    def _copy(self, node: int | None = None, most: int = 3) -> None:
        node = node or self._chance.choice([each for each in _BROKERS if each != self._leader])
        own, theirs = self.logs[node], self.logs[self._leader]
        same = next(
            (offset for offset, (one, other) in enumerate(zip(own, theirs, strict=False)) if one != other), None
        )
        if same is None:
            same = min(len(own), len(theirs))
        if same < len(own):
            self.history.truncation(node, same, len(own), epoch=self._epoch, at=self.time_ns)
            self._cut(node, same, "truncation")
        for offset in range(len(own), min(len(theirs), len(own) + most)):
            if not own or own[-1][0] != theirs[offset][0]:
                self._begin_epoch(node, theirs[offset][0], offset)
            own.append(theirs[offset])

    def _cut(self, node: int, end: int, reason: str) -> None:
        """What goes is stored first."""
        self._look(node, reason, since=end if reason == "truncation" else 0)
        del self.logs[node][end:]
        self._starts[node] = [entry for entry in self._starts[node] if entry[1] < end]

    def _begin_epoch(self, node: int, epoch: int, start: int) -> None:
        """As a broker's checkpoint has it: an epoch without records gives way to the next one, a later one to it."""
        self._starts[node] = [entry for entry in self._starts[node] if entry[0] < epoch and entry[1] < start]
        self._starts[node].append((epoch, start))

    def _state(self, *, start: int | None = None) -> None:
        self.history.state(self._leader, self._epoch, sorted(self._isr), at=self.time_ns, start=start)

    def _shrink(self) -> None:
        others = sorted(self._isr - {self._leader})
        if others:
            self._isr.remove(self._chance.choice(others))
            self._state()

    def _grow(self) -> None:
        for node in sorted(set(_BROKERS) - self._isr):
            if self.logs[node] == self.logs[self._leader]:
                self._isr.add(node)
                self._state()
                return

    def _burn(self) -> None:
        """Disks are lost: of the whole ISR at once, or of one member, which leaves the ISR if there are others."""
        nodes = sorted(self._isr) if self._chance.random() < 0.5 else [self._chance.choice(sorted(self._isr))]
        for node in nodes:
            self.history.fault("wipe", [node], at=self.time_ns)
            self._cut(node, 0, "wipe")
        if self._isr == set(nodes):
            for record in self.sent:
                if record.time_ns >= 0:
                    record.burnt.append(self.time_ns)
            self.time_ns += 0.01
            self._elect(self._chance.choice(nodes), unclean=False)
            return
        self._isr -= set(nodes)
        if self._leader in nodes:
            self._elect(self._chance.choice(sorted(self._isr)), unclean=False)
        else:
            self._state()

    # -- leaders ------------------------------------------

    def _change(self) -> None:
        outside = sorted(set(_BROKERS) - self._isr)
        if outside and self._chance.random() < 0.5:
            leader = self._chance.choice(outside)
            self._isr = {leader}
            self._elect(leader, unclean=True)
            return
        leader = self._chance.choice(sorted(self._isr))
        if leader == self._leader and self._forgetful and self.logs[leader]:
            self._cut(leader, len(self.logs[leader]) - 1, "kill")
        if self._chance.random() < 0.5:
            self._isr = {node for node in self._isr if node in (leader, self._chance.choice(_BROKERS))}
        self._elect(leader, unclean=False)

    def _elect(self, leader: int, *, unclean: bool) -> None:
        self._leader, self._epoch = leader, self._epoch + 1
        self._begin_epoch(leader, self._epoch, len(self.logs[leader]))
        self._state(start=len(self.logs[leader]))
        self.leaders.append(
            TookOver(
                time_ns=self.time_ns, epoch=self._epoch, leader=leader, unclean=unclean, log=tuple(self.logs[leader])
            )
        )
        self._look(leader, "restart")

    # -- what is stored of it -----------------------------

    def _look(self, node: int, reason: str, *, since: int = 0) -> None:
        entries = [(offset, epoch, value) for offset, (epoch, value) in enumerate(self.logs[node]) if offset >= since]
        chain = ",".join(f"{epoch}:{start}" for epoch, start in self._starts[node])
        self.history.snapshot(node, entries, at=self.time_ns, reason=reason, epochs=chain)

    def _finish(self) -> None:
        self.time_ns += 1
        for node in _BROKERS:
            if node != self._leader:
                self._copy(node, most=10**6)
            self._look(node, "end")
