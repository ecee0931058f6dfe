"""What is done in a drawn schedule: sequences, one after the other, each of one fault, a pair, or a chain of three.

About half of the known replication bugs need a second fault within a fetch's round trip of what the first one brings
about. So the second waits for exactly that: a new leader, a smaller ISR, a cut log, a node that runs again, or the n-th
record acknowledged after it. Victims are named by role, which moves.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.campaign.drawing.profiles import Profile
from harness.campaign.drawing.setup import TOPIC, Setup
from harness.campaign.situations import Outline, Role
from harness.host.randomness import weighed
from harness.ports.faults import Fault
from harness.scenario.model import FaultSpec

# Of the first fault of a sequence, and of one that follows from a change of that kind: role -> how often.
_FIRST = {"leader": 9.0, "follower": 4.0, "followers": 2.0, "controller": 1.5, "isr": 1.0, "last_isr": 1.0}
_NEXT: Mapping[str, Mapping[str, float]] = {
    "new_leader": {"leader": 6.0, "follower": 2.0, "followers": 1.0, "controller": 0.5, "isr": 0.5},
    "isr_shrinks": {"leader": 6.0, "isr": 2.5, "follower": 1.0},
    "isr_grows": {"leader": 5.0, "follower": 2.0, "isr": 1.0, "last_isr": 1.0},
    "acks": {"leader": 6.0, "isr": 1.5, "follower": 1.0, "followers": 1.0},
    "restarted": {"leader": 5.0, "follower": 2.0, "isr": 1.5},
    "truncated": {"leader": 5.0, "follower": 3.0, "last_isr": 1.0},
    "soon": {"leader": 6.0, "isr": 1.0, "follower": 1.5},
    "handed_back": {"leader": 6.0, "follower": 1.0},
}
# Patterns of a pair or chain. lag: replicas lag behind, and a broker is taken away before or after they leave the ISR.
# moves: a leader is taken away, and soon the next one. any: whatever follows from whatever. in_flight, where requests
# can be held: one kind of the leader's is, a replica lags behind meanwhile, and who led goes while one is under way.
_PATTERNS = {"lag": 4.0, "moves": 3.0, "any": 3.0}
_IN_FLIGHT = {"in_flight": 8.0}
_LAGGING_ROLES = {"leader": 3.0, "follower": 5.0, "followers": 3.0}
_AFTER_LAG = {"acks": 3.0, "soon": 4.0, "isr_shrinks": 2.5, "isr_grows": 3.0, "truncated": 0.5}
_OF_LAG = (0.4, 0.8, 1.3, 2.0)  # how long replicas are made to lag, in times of what the ISR allows
_OF_SESSION = (0.5, 1.2, 1.2, 2.0)  # how long a leader is away, in times of what its session allows
_GIVEN_UP = 1.5  # times what the ISR allows: a leader looks every half of that for who lags
_OF_A_RETURN_S = 1.2  # beside the time asked for: a look at other disks before one is harmed, and the start
_AFTER_MOVE = {"new_leader": 6.0, "isr_grows": 2.0, "restarted": 2.0, "truncated": 0.7, "acks": 1.5, "handed_back": 4.0}
_TAKEN_SHARE = 0.7  # of what follows: it takes a broker away
_AFTER_LEADER = {
    "new_leader": 5.0,
    "acks": 2.0,
    "restarted": 2.0,
    "isr_grows": 1.5,
    "isr_shrinks": 1.0,
    "truncated": 0.7,
    "soon": 2.0,
}
_AFTER_OTHERS = {"isr_shrinks": 4.0, "acks": 4.0, "isr_grows": 1.5, "restarted": 1.5, "truncated": 0.5, "soon": 2.5}
_SEEN_AS: Mapping[str, Role] = {
    "leader": "leader",
    "isr": "leader",
    "follower": "follower",
    "followers": "follower",
    "last_isr": "follower",
    "controller": "controller",
}
_ONE_VICTIM = ("leader", "follower", "last_isr")
_DELAYS_S = (0.0, 0.0, 0.0, 0.05, 0.2, 0.5, 1.0)
_CHAIN_SHARE = 0.4  # of the pairs: a third fault follows
_WELL_SHARE = (
    0.75  # of the sequences: begun when all replicas are in sync again; nothing is at stake while nobody commits
)
_REPLICAS = 3
_SHORT_SHARE = 0.45
_WARM_S = 1.5
_LONGEST_S, _LONGEST_LAG_S = 4.5, 7.0


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A fault of a schedule, and what is meant to be so when it begins: whom it strikes, after which other kind."""

    spec: FaultSpec
    role: str  # "": it strikes no node
    outline: Outline


class Sequences:
    """Draws the sequences of one schedule. kinds: those this run does not leave out, with their weights."""

    def __init__(
        self, profile: Profile, setup: Setup, kinds: Mapping[type[Fault], float], chance: random.Random
    ) -> None:
        self._profile = profile
        self._setup = setup
        self._kinds = kinds
        self._chance = chance
        self._holding = {fault: weight for fault, weight in kinds.items() if _has(fault, "held")}
        self._patterns = _PATTERNS | _IN_FLIGHT if self._holding else _PATTERNS
        self._apart = [broker for broker in setup.cluster.brokers if broker not in _replicas(setup)]

    def all(self) -> list[Planned]:
        count = self._chance.randint(*self._profile.sequences)
        end_s = self._setup.workload.duration_s
        each_s = (end_s - _WARM_S - 2.0) / count
        planned: list[Planned] = []
        for number in range(count):
            at_s = round(_WARM_S + each_s * number + self._chance.uniform(0, 0.4 * each_s), 2)
            planned += self._sequence(at_s, before=planned[-1].outline.kind if planned else "")
        return planned

    def _sequence(self, at_s: float, *, before: str) -> list[Planned]:
        chance, partition = self._chance, self._chance.randrange(len(self._setup.topics[0].assignment or ((),)))
        linked = chance.random() < self._profile.linked_share
        pattern = weighed(chance, self._patterns) if linked else "any"
        when = f"elapsed >= {at_s:g} s"
        first = self._first(pattern, partition, before=before)
        begins: dict[str, Any] = {"at_s": at_s}
        if chance.random() < _WELL_SHARE:
            when += f" then isr({TOPIC}/{partition}) >= {_REPLICAS}"
            begins = {"when": when}
        if pattern == "in_flight":
            return self._in_flight(first, begins, when, partition)
        lasts_s = self._first_lasts(first.spec, pattern, linked)
        planned = [replace(first, spec=replace(first.spec, for_s=lasts_s, **begins))]
        if not linked:
            return planned
        for _ in range(2 if chance.random() < _CHAIN_SHARE else 1):
            cause = weighed(chance, self._causes(planned[-1], pattern))
            delay_s = chance.choice(_DELAYS_S)
            if cause == "soon":
                delay_s = self._soon(lasts_s)
            else:
                when += f" then {self._trigger(cause, partition)}"
            kinds = self._undone_by(("start",)) if chance.random() < _TAKEN_SHARE else self._kinds
            following = self._fault(kinds, _NEXT[cause], partition, before=planned[-1].outline.kind)
            planned.append(replace(following, spec=replace(following.spec, when=when, delay_s=delay_s)))
        return planned

    def _in_flight(self, first: Planned, begins: Mapping[str, Any], when: str, partition: int) -> list[Planned]:
        """first: holds requests. Then a replica lags behind, so that the ISR changes, and then somebody goes."""
        chance = self._chance
        lasts_s = round(chance.uniform(2.0, _LONGEST_S), 2)
        held = replace(first, spec=replace(first.spec, for_s=lasts_s, **begins))
        slow = self._fault(self._undone_by(("heal", "resume")), _LAGGING_ROLES, partition, before=held.outline.kind)
        slow = self._cut_off(slow, ("peers", "peers", "cluster"))
        lags_s = round(min(self._setup.lag_s * chance.choice(_OF_LAG), _LONGEST_LAG_S), 2)
        slow = replace(slow, spec=replace(slow.spec, for_s=lags_s, delay_s=0.1, when=when))
        when += f" then request({first.spec.options['request']})"
        goes = self._fault(self._undone_by(("start",)), _NEXT["isr_shrinks"], partition, before=slow.outline.kind)
        goes = replace(goes, spec=replace(goes.spec, when=when, delay_s=chance.choice(_DELAYS_S)))
        return [held, slow, goes]

    def _first(self, pattern: str, partition: int, *, before: str) -> Planned:
        if pattern == "in_flight":
            return self._fault(self._holding, {"leader": 3.0, "follower": 1.0}, partition, before=before)
        if pattern == "lag":
            first = self._fault(self._undone_by(("heal", "resume")), _LAGGING_ROLES, partition, before=before)
            return self._cut_off(first, ("peers", "peers", "cluster", "all"))
        if pattern == "moves":
            kinds = {**self._undone_by(("start", "resume")), **self._cutting_off()}
            first = self._fault(kinds, {"leader": 1.0}, partition, before=before)
            return self._cut_off(first, ("cluster", "cluster", "cluster", "all"))
        return self._fault(self._kinds, _FIRST, partition, before=before)

    def _cut_off(self, first: Planned, origins: Sequence[str]) -> Planned:
        """Where somebody is cut off: from others than drawn, for replicas to lag, or for another to lead. Mostly its
        clients still reach it: a leader that is alone and does not know it shows in what it acknowledges."""
        if "from" not in first.spec.options:
            return first
        options = {**first.spec.options, "from": self._chance.choice(origins)}
        return replace(first, spec=replace(first.spec, options=options))

    def _first_lasts(self, spec: FaultSpec, pattern: str, linked: bool) -> float | None:
        if spec.for_s is None or "spare" in spec.options:
            return spec.for_s
        if pattern == "any":
            return self._outlasting(spec, linked)
        setup, chance = self._setup, self._chance
        if pattern == "lag":
            lasts_s = setup.lag_s * chance.choice(_OF_LAG)
        elif "from" in spec.options:  # it still runs, and may give up its followers while another is elected
            lasts_s = max(setup.session_s, _GIVEN_UP * setup.lag_s) * chance.choice(_OF_SESSION)
        else:
            lasts_s = setup.session_s * chance.choice(_OF_SESSION)
        return round(min(max(lasts_s, 0.5), _LONGEST_LAG_S), 2)

    def _causes(self, after: Planned, pattern: str) -> Mapping[str, float]:
        """What a fault may bring about that the next one waits for; a node is restarted only that was taken down, and
        a leader leads again by itself only where the cluster balances."""
        others = _AFTER_LEADER if after.role in ("leader", "isr") else _AFTER_OTHERS
        causes = {"lag": _AFTER_LAG, "moves": _AFTER_MOVE}.get(pattern, others)
        taken_down = any(fault.name == after.spec.kind and fault.undone_by == "start" for fault in self._kinds)
        never = {"restarted"} if not taken_down else set()
        never |= {"handed_back"} if not self._setup.hands_back else set()
        return {cause: weight for cause, weight in causes.items() if cause not in never}

    def _undone_by(self, ways: Sequence[str]) -> Mapping[type[Fault], float]:
        """Of the kinds of this run; all of them where it has left these out."""
        return {fault: weight for fault, weight in self._kinds.items() if fault.undone_by in ways} or self._kinds

    def _cutting_off(self) -> Mapping[type[Fault], float]:
        """Of the kinds of this run, those that say from whom they cut a broker off."""
        return {fault: weight for fault, weight in self._kinds.items() if _has(fault, "from_")}

    def _outlasting(self, spec: FaultSpec, linked: bool) -> float | None:
        """Most faults that another one is to follow are still in force then."""
        if spec.for_s is None or not linked or self._chance.random() < 0.3:
            return spec.for_s
        return round(max(spec.for_s, self._chance.uniform(2.0, _LONGEST_S)), 2)

    def _soon(self, lasts_s: float | None) -> float:
        """A moment after the fault before, or shortly before or after the first one is over."""
        moments_s = [0.1, 0.3, 0.6, 1.0, 2.0]
        if lasts_s is not None:
            moments_s += [0.5 * lasts_s, 0.9 * lasts_s, lasts_s, lasts_s + 0.3]
        return round(self._chance.choice(moments_s), 2)

    def _trigger(self, cause: str, partition: int) -> str:
        if cause == "acks":
            sparse = self._setup.workload.facts.in_flight == 1
            return f"acks >= +{self._chance.choice((1, 2, 5) if sparse else (1, 10, 50, 200))}"
        if cause == "handed_back":
            return f"isr_grows({TOPIC}/{partition}) then new_leader({TOPIC}/{partition})"
        return cause if cause == "restarted" else f"{cause}({TOPIC}/{partition})"

    def _fault(
        self, kinds: Mapping[type[Fault], float], roles: Mapping[str, float], partition: int, *, before: str
    ) -> Planned:
        fault = weighed(self._chance, kinds)
        role = weighed(self._chance, self._fitting(fault, roles)) if fault.may_hit else ""
        spec = FaultSpec(
            kind=fault.name,
            target=self._target(role, partition) if role else "",
            for_s=self._lasting(fault),
            options=self._options(fault, partition),
        )
        outline = Outline(kind=fault.kind, role=_SEEN_AS.get(role, "other"), before=before)
        return Planned(spec=spec, role=role, outline=outline)

    def _fitting(self, fault: type[Fault], roles: Mapping[str, float]) -> Mapping[str, float]:
        """A disk is harmed of one replica at a time, and of nobody who may have none."""
        if fault.undone_by == "heal":  # between all replicas and the others there may be no link
            roles = {role: weight for role, weight in roles.items() if role != "isr"}
        if fault.destroys != "nothing":
            return {role: weight for role, weight in roles.items() if role in _ONE_VICTIM}
        if "controller" not in fault.may_hit:
            return {role: weight for role, weight in roles.items() if role != "controller"}
        return roles

    def _target(self, role: str, partition: int) -> str:
        where = f"({TOPIC}/{partition})"
        apart = "".join(f" - {broker}" for broker in self._apart)
        return {"controller": "controller", "follower": f"random(1) - leader{where}{apart}"}.get(role, f"{role}{where}")

    def _lasting(self, fault: type[Fault]) -> float | None:
        """Of what is not over by itself: short ones end before anybody notices, long ones after everybody did. Whoever
        lost records returns soon: alone with them, it would lead lawfully when all others have failed meanwhile."""
        if fault.lasts_s.fget is not Fault.lasts_s.fget:  # type: ignore[attr-defined]
            return None
        least_s, most_s = fault.lasting_s
        if fault.destroys in ("tail", "batch"):
            return round(self._chance.uniform(0.05, max(0.1, 0.9 * self._setup.session_s - _OF_A_RETURN_S)), 2)
        if self._chance.random() < _SHORT_SHARE:
            return round(self._chance.uniform(0.05, min(least_s, 0.8 * self._setup.session_s)), 2)
        return round(self._chance.uniform(least_s, min(most_s, _LONGEST_S)), 2)

    def _options(self, fault: type[Fault], partition: int) -> Mapping[str, Any]:
        options = dict(fault.drawn(self._chance))
        if _has(fault, "partition") and partition:
            options["partition"] = partition
        if "records" in options:  # no more than a log has
            options["records"] = min(options["records"], self._chance.choice(self._setup.tails))
        if "afterwards" in options:  # what was set before
            was = self._setup.topics[0].settings
            options["afterwards"] = {key: was.get(key, value) for key, value in options["afterwards"].items()}
        return options

    def lost_replies(self, fault: type[Fault]) -> FaultSpec:
        """The leader is cut from its clients for a moment, again and again: what it answers then is lost."""
        chance = self._chance
        sparse = self._setup.workload.facts.in_flight == 1
        return FaultSpec(
            kind=fault.name,
            target=f"leader({TOPIC}/0)",
            when=f"acks >= +{chance.choice((5, 10, 20) if sparse else (100, 300, 600))}",
            times=chance.randint(2, 5),
            for_s=round(chance.uniform(0.1, 2.0), 2),
            options={"from": "clients", "mode": chance.choice(("hang", "reset"))},
        )

    def slow_links(self, fault: type[Fault]) -> FaultSpec:
        """All the while every answer between brokers is late: what happens within a round trip has time to happen."""
        at_s = round(self._chance.uniform(0.5, 0.3 * self._setup.workload.duration_s), 2)
        brokers = sorted(self._setup.cluster.brokers)
        return FaultSpec(
            kind=fault.name,
            target="",
            at_s=at_s,
            for_s=round(self._setup.workload.duration_s - at_s, 2),
            options={
                "links": [f"{source}>{target}" for source in brokers for target in brokers if source != target],
                "delay": f"{self._chance.choice((50, 100, 200, 400))} ms",
            },
        )


def _has(fault: type[Fault], option: str) -> bool:
    return option in getattr(fault, "__dataclass_fields__", {})


def _replicas(setup: Setup) -> set[int]:
    return {broker for row in setup.topics[0].assignment or () for broker in row}


def in_order(specs: Sequence[FaultSpec]) -> tuple[FaultSpec, ...]:
    """As a schedule that was written out has them: by time, what has none first."""
    return tuple(sorted(specs, key=lambda spec: spec.at_s if spec.at_s is not None else 0.0))
