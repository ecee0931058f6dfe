"""A schedule drawn by chance, as a scenario of its own: written out whole, so that running the file repeats it.

Each run leaves out a random half of the fault kinds that its profile has and its system can suffer (a swarm): what is
always there hides what happens without it. Where it is known what was seldom reached, several schedules are drawn and
the one is taken that plans most of it.
"""

from collections.abc import Mapping
from dataclasses import replace

import faults.catalogue
from harness.campaign.drawing.profiles import Profile
from harness.campaign.drawing.sequences import Planned, Sequences, in_order
from harness.campaign.drawing.setup import Setup, setup
from harness.campaign.situations import Situations
from harness.cluster.catalogue import cluster_kind, traits_of
from harness.host.randomness import half, stream
from harness.ports.capabilities import CanFillDisks
from harness.ports.faults import Fault
from harness.scenario.model import ClusterSpec, ExpectSpec, FaultSpec, Scenario
from harness.scenario.places import Places
from harness.scenario.written import written_out

_LEAST_KINDS = 4
_TRIED = 6  # schedules drawn where one is chosen by what it plans
_LOST_REPLIES, _SLOW_LINKS = "isolate", "slow"


def draw(
    profile: Profile,
    *,
    system: str,
    seed: int,
    number: int,
    seldom: Situations | None = None,
    world: str = "local",
) -> Scenario:
    """Number `number`, from 0, of the schedules of a seed. seldom: how often each situation was reached until now; the
    same counts give the same scenario. Raises UsageError for a system that nobody knows."""
    tries = [
        _Draft(profile, ClusterSpec(system=system, world=world), seed, number, attempt)
        for attempt in range(_TRIED if seldom else 1)
    ]
    if seldom:
        tries.sort(key=lambda draft: -sum(seldom.worth(each.outline) for each in draft.planned))
    return tries[0].scenario()


class _Draft:
    """One schedule as it is drawn."""

    def __init__(self, profile: Profile, on: ClusterSpec, seed: int, number: int, attempt: int) -> None:
        system = on.system  # the same schedule in every world that can do it
        chance = stream(seed, f"draw/{profile.name}/{system}/{number}/{attempt}")
        self.name = f"{profile.name}-{seed}-{number}"
        self.seed = chance.randrange(1, 1_000_000)
        self.traits = traits_of(on)
        self.setup: Setup = setup(profile, system, self.traits, chance)
        able = possible(profile, self.setup.cluster, self.setup.topics[0].settings)
        kept = half(chance, list(able), least=min(_LEAST_KINDS, len(able)))
        sequences = Sequences(profile, self.setup, {fault: able[fault] for fault in kept}, chance)
        self.planned: list[Planned] = sequences.all()
        self.more: tuple[FaultSpec, ...] = ()
        by_name = {fault.name: fault for fault in able}
        if self.setup.loses_replies and _LOST_REPLIES in by_name:
            self.more += (sequences.lost_replies(by_name[_LOST_REPLIES]),)
        if _takes_turn(profile, system, seed, number) and _SLOW_LINKS in by_name:
            self.more += (sequences.slow_links(by_name[_SLOW_LINKS]),)
        self.every_replica = chance.random() < profile.every_replica_share
        self.story = f"Drawn: profile {profile.name}, seed {seed}, number {number}. {profile.says.capitalize()}."

    def scenario(self) -> Scenario:
        scenario = Scenario(
            name=self.name,
            story=self.story,
            source="",
            cluster=self.setup.cluster,
            topics=self.setup.topics,
            workload=self.setup.workload,
            faults=in_order((*self.more, *(each.spec for each in self.planned))),
            steps=(),
            expect=ExpectSpec(),
            coverage={},
            read_every_replica=self.every_replica,
            seed=self.seed,
            traits=self.traits,
        )
        text = written_out(scenario)
        return replace(scenario, source=text, places=Places(text=text, file=f"{self.name}.toml"))


def _takes_turn(profile: Profile, system: str, seed: int, number: int) -> bool:
    """Whether links are slow in this run: by turns and not by chance, so that the first few of a campaign have one."""
    every = profile.slow_every
    return every > 0 and (number + stream(seed, f"turn/{profile.name}/{system}").randrange(every)) % every == 0


def possible(profile: Profile, on: ClusterSpec, settings: Mapping[str, str]) -> Mapping[type[Fault], float]:
    """The profile's faults that such a cluster can suffer, each with its weight. settings: of the topic."""
    kind = cluster_kind(on)
    found: dict[type[Fault], float] = {}
    for name, fault in faults.catalogue.by_name().items():
        named = profile.faults.get(name, 0.0)
        weight = fault.weight * (named if profile.faults else 1.0) or (named if fault.weight == 0 else 0.0)
        able = all(issubclass(kind, need) for need in fault.needs)
        able = able and fault.drawn_where.items() <= settings.items()
        if weight > 0 and able and not (CanFillDisks in fault.needs and not on.disk_bytes):
            found[fault] = weight
    return found
