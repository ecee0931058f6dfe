"""Which planted flaws a search finds in the simulated world: drawn schedules with the flaw planted, seed after seed.

A flaw is found by the first seed that shows a violation which the same seed without the flaw does not show. Where none
does, an invariant that it broke is told. What was found is kept as JSON, so that a later start goes on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
_BATCH = 8  # seeds that are judged together
_PER_SECOND_MAX = 20.0  # records: a run costs by them, and a schedule's length says what it reaches


class FlawFound(msgspec.Struct, frozen=True, kw_only=True):
    """check: of the first violation, found with that seed; "": none until `seeds`. invariant: the first that was
    broken, with its seed. faults: of the schedule, as drawn and as shrunk. ended_early: they may be fewer, for
    shrinking was interrupted. scenario: the shrunk one, as TOML."""

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


async def search(flaw: PlantedFlaw, known: FlawFound | None, tries: Tries, *, seeds: int) -> FlawFound:
    """Goes on behind the seeds that `known` has, up to `seeds`; returns early once it is found, or interrupted."""
    of = _profile(flaw.part)
    found = known or FlawFound(name=flaw.name, origin=flaw.origin, profile=of.name)
    while not found.check and found.seeds < seeds:
        batch = range(found.seeds + 1, min(found.seeds + _BATCH, seeds) + 1)
        drawn = [planted(of, seed, flaw.name) for seed in batch]
        shown = await tries.made(drawn)
        if not tries.goes_on:
            return found
        seen = await _seen(found, drawn, shown, tries)
        if not (seen.check or tries.goes_on):
            return found  # a violation may not have been held against the sound cluster
        found = seen
    return found


async def _seen(found: FlawFound, drawn: Sequence[Scenario], shown: Sequence[Shown], tries: Tries) -> FlawFound:
    for scenario, result in zip(drawn, shown, strict=True):
        seed = scenario.seed or 0
        if result.error:
            tries.tell(f"{found.name}, seed {seed}: {result.error}")
        if result.invariant and not found.invariant:
            found = msgspec.structs.replace(found, invariant=result.invariant, invariant_seed=seed)
        finding = await _of_the_flaw(scenario, result.findings, tries)
        if finding is not None:
            return await _shrunk(msgspec.structs.replace(found, seeds=seed), scenario, finding, tries)
    return msgspec.structs.replace(found, seeds=drawn[-1].seed or 0)


async def _of_the_flaw(scenario: Scenario, findings: "Sequence[Finding]", tries: Tries) -> "Finding | None":
    """A violation that the sound cluster does not show under the same schedule and seed."""
    violations = [each for each in findings if each.classification == "violation"]
    if not violations:
        return None
    (without,) = await tries.made([replace(scenario, cluster=replace(scenario.cluster, flaws=()))])
    shown_too = {each.check for each in without.findings if each.classification == "violation"}
    return next((each for each in violations if each.check not in shown_too and not without.error), None)


async def _shrunk(found: FlawFound, scenario: Scenario, finding: "Finding", tries: Tries) -> FlawFound:
    """By its faults alone, which are what its length is counted by."""
    sought = Sought(check=finding.check, classification=finding.classification, alike=True)
    left = await smallest(scenario, partial(tries.of, sought), goes_on=lambda: tries.goes_on, reductions=fewer_parts)
    return msgspec.structs.replace(
        found,
        check=finding.check,
        seed=found.seeds,
        faults_drawn=len(scenario.faults),
        faults_shrunk=len(left.faults),
        ended_early=not tries.goes_on,
        scenario=written_out(left),
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
        "producers": lambda: replace(profile("clients"), workloads={"produce_and_poll": 1.0}, compaction_share=0.0),
        "groups": lambda: replace(profile("clients"), workloads={"consumer_groups": 1.0}),
        "transactions": lambda: replace(profile("clients"), workloads={"transactions": 1.0}),
        "compaction": lambda: replace(
            profile("storage"), workloads={"produce_and_poll": 1.0}, compaction_share=1.0, retention_share=0.0
        ),
    }
    return by_part[part]()
