"""Which planted flaws a search finds in the simulated world: drawn schedules with a flaw planted, seed after seed.

A flaw is found by the first seed that shows a violation which the same seed without the flaw does not show. Where none
does, an invariant that it broke is told. What was found is kept as JSON, so that a later start goes on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from harness.campaign.drawing.draw import draw
from harness.campaign.drawing.profiles import Profile, profile
from harness.campaign.shrinking.reductions import fewer_parts
from harness.campaign.shrinking.search import smallest
from harness.campaign.shrinking.tries import Shown, Sought, Tries
from harness.cluster.simulated.planted import Part, PlantedFlaw
from harness.errors import HarnessError
from harness.history.files_below import FilesBelow
from harness.ports.load import WorkloadSpec
from harness.scenario.model import SIMULATED, Scenario
from harness.scenario.written import written_out

if TYPE_CHECKING:
    from harness.checks.findings import Finding  # with PySpark: other commands begin without it

KEPT = "flaws.json"
_BATCH = 48  # runs that are judged together: Spark's part of a run's cost is small then
_SEEDS_AT_ONCE = 8  # of a flaw; what comes behind the seed that finds it is for nothing
_PER_SECOND_MAX = 20.0  # records: a run costs by them, and a schedule's length says what it reaches


class FlawFound(msgspec.Struct, frozen=True, kw_only=True):
    """check: of the first violation, found with that seed; "": none until `seeds`. invariant: the first that was
    broken, with its seed. faults: of the schedule, as drawn and as shrunk. ended_early: they may be fewer, for it is
    not shrunk to the end. scenario: the shrunk one, as TOML."""

    name: str
    origin: str
    profile: str = ""
    seeds: int = 0  # searched, from 1
    check: str = ""
    seed: int = 0
    invariant: str = ""
    invariant_seed: int = 0
    faults_drawn: int = 0
    faults_shrunk: int = 0
    ended_early: bool = False
    scenario: str = ""

    @property
    def found_by(self) -> str:
        """In words."""
        if self.check:
            return f"check {self.check}"
        if self.invariant:
            return f"invariant {self.invariant} alone"
        return "not found" if self.seeds else "no seed searched"


def kept_in(files: FilesBelow) -> dict[str, FlawFound]:
    """By the flaw's name. Raises HarnessError where the file is none of ours."""
    if not files.has_file(KEPT):
        return {}
    try:
        rows = msgspec.json.decode(files.read(KEPT), type=list[FlawFound])
    except msgspec.MsgspecError as error:
        raise HarnessError(f"{files.top / KEPT}: no table of flaws ({error}); remove it to search anew") from None
    return {each.name: each for each in rows}


def keep(files: FilesBelow, found: Mapping[str, FlawFound]) -> None:
    rows = msgspec.json.encode([found[name] for name in sorted(found)])
    files.replace(KEPT, msgspec.json.format(rows, indent=2) + b"\n")


@dataclass(frozen=True, kw_only=True)
class _Planted:
    """A schedule that one flaw is planted in, and what its run came to."""

    flaw: PlantedFlaw
    scenario: Scenario
    shown: Shown


async def search(
    flaws: Sequence[PlantedFlaw],
    found: dict[str, FlawFound],
    tries: Tries,
    *,
    seeds: int,
    keep: Callable[[], None] = lambda: None,
) -> None:
    """Goes on behind the seeds that `found` has of each, up to `seeds`, then shrinks what was found and is not shrunk.
    `found` gets all of it; `keep` is called after each change. Returns early once interrupted."""
    for flaw in flaws:
        drawn_by = _profile(flaw.part).name
        known = found.get(flaw.name)
        if known is None or known.profile != drawn_by:  # what other schedules showed is another search
            found[flaw.name] = FlawFound(name=flaw.name, origin=flaw.origin, profile=drawn_by)
    sound: dict[str, Shown] = {}  # by schedule and seed, as TOML
    while looked_for := [flaw for flaw in flaws if _is_open(found[flaw.name], seeds)]:
        at_once = sorted(looked_for, key=lambda flaw: found[flaw.name].seeds)[:_BATCH]
        each_gets = max(1, min(_SEEDS_AT_ONCE, _BATCH // len(at_once)))
        drawn = [(flaw, of) for flaw in at_once for of in _next(flaw, found[flaw.name], each_gets, seeds)]
        await _searched(drawn, found, sound, tries)
        if not tries.goes_on:
            return
        keep()
    for flaw in flaws:
        if tries.goes_on and found[flaw.name].ended_early:
            found[flaw.name] = await _shrunk(found[flaw.name], flaw, tries)
            keep()


def _is_open(found: FlawFound, seeds: int) -> bool:
    return not found.check and found.seeds < seeds


def _next(flaw: PlantedFlaw, found: FlawFound, count: int, seeds: int) -> list[Scenario]:
    last = min(found.seeds + count, seeds)
    return [planted(_profile(flaw.part), seed, flaw.name) for seed in range(found.seeds + 1, last + 1)]


async def _searched(
    of_flaw: Sequence[tuple[PlantedFlaw, Scenario]],
    found: dict[str, FlawFound],
    sound: dict[str, Shown],
    tries: Tries,
) -> None:
    """Runs them, and beside them what is needed of the sound cluster, which other flaws need, too."""
    shown = await tries.made([scenario for _, scenario in of_flaw])
    made = [_Planted(flaw=flaw, scenario=of, shown=by) for (flaw, of), by in zip(of_flaw, shown, strict=True)]
    suspects = [_without_flaw(each.scenario) for each in made if _violations(each.shown)]
    missing = {written_out(each): each for each in suspects if written_out(each) not in sound}
    if not tries.goes_on:
        return
    sound |= dict(zip(missing, await tries.made(list(missing.values())), strict=True))
    if not tries.goes_on:
        return  # a violation may not have been held against the sound cluster
    for each in made:
        found[each.flaw.name] = _with(found[each.flaw.name], each, sound, tries.tell)


def _with(found: FlawFound, made: _Planted, sound: Mapping[str, Shown], tell: Callable[[str], None]) -> FlawFound:
    """With what one more seed has shown; what comes behind the seed that found it does not count."""
    if found.check:
        return found
    seed = made.scenario.seed or 0
    if made.shown.error:
        tell(f"{found.name}, seed {seed}: {made.shown.error}")
    found = msgspec.structs.replace(found, seeds=seed)
    if made.shown.invariant and not found.invariant:
        found = msgspec.structs.replace(found, invariant=made.shown.invariant, invariant_seed=seed)
    violations = _violations(made.shown)
    if not violations:
        return found
    without = sound[written_out(_without_flaw(made.scenario))]
    shown_too = {finding.check for finding in _violations(without)}
    finding = next((each for each in violations if each.check not in shown_too), None)
    if finding is None or without.error:
        return found
    tell(f"{found.name}: check {finding.check}, seed {seed}")
    faults = len(made.scenario.faults)
    return msgspec.structs.replace(
        found,
        check=finding.check,
        seed=seed,
        faults_drawn=faults,
        faults_shrunk=faults,
        ended_early=True,
        scenario=written_out(made.scenario),
    )


def _violations(shown: Shown) -> "list[Finding]":
    return [each for each in shown.findings if each.classification == "violation"]


def _without_flaw(scenario: Scenario) -> Scenario:
    return replace(scenario, cluster=replace(scenario.cluster, flaws=()))


async def _shrunk(found: FlawFound, flaw: PlantedFlaw, tries: Tries) -> FlawFound:
    """By its faults alone, which are what its length is counted by; it begins anew where it was interrupted."""
    drawn = planted(_profile(flaw.part), found.seed, flaw.name)
    sought = Sought(check=found.check, classification="violation", alike=True)
    left = await smallest(drawn, partial(tries.of, sought), goes_on=lambda: tries.goes_on, reductions=fewer_parts)
    return msgspec.structs.replace(
        found, faults_shrunk=len(left.faults), ended_early=not tries.goes_on, scenario=written_out(left)
    )


# ---- what is drawn --------------------------------------------------------------------------------------------------


def planted(of: Profile, seed: int, flaw: str) -> Scenario:
    """The schedule that explore draws for the seed, with the flaw planted and at most so many records a second."""
    drawn = draw(of, system="reference", seed=seed, number=0, world=SIMULATED)
    return replace(
        drawn,
        seed=seed,
        cluster=replace(drawn.cluster, flaws=(flaw,)),
        workload=_slow(drawn.workload),
    )


def _slow(workload: WorkloadSpec) -> WorkloadSpec:
    rate = min(getattr(workload, "rate_per_second", 0.0), _PER_SECOND_MAX)
    fewer: dict[str, float | int] = {"rate_per_second": rate, "batch": 1}
    return replace(workload, **fewer)  # type: ignore[arg-type]


def _profile(part: Part) -> Profile:
    """What reaches that part: its load, and its settings."""
    by_part: Mapping[Part, Callable[[], Profile]] = {
        "replication": lambda: profile("replication"),
        "requests": lambda: profile("requests"),
        "storage": lambda: replace(profile("storage"), faults={**profile("storage").faults, "power-off": 3.0}),
        "producers": lambda: replace(profile("clients"), workloads={"produce_and_poll": 1.0}, compaction_share=0.0),
        "groups": lambda: replace(profile("clients"), workloads={"consumer_groups": 1.0}),
        "transactions": lambda: replace(profile("clients"), workloads={"transactions": 1.0}),
        "compaction": lambda: replace(
            profile("storage"), workloads={"produce_and_poll": 1.0}, compaction_share=1.0, retention_share=0.0
        ),
    }
    return by_part[part]()
