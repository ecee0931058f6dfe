"""A campaign's file: strict TOML in, a `Plan` out. Its runs are [[matrix]] tables, multiplied out, and [[random]] ones.

Every scenario is looked at before anything is started, and all problems are reported at once.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.campaign.accepted import toml_of
from harness.campaign.drawing.draw import draw
from harness.campaign.drawing.profiles import profile as profile_named
from harness.campaign.plan import DEFAULT_JOBS, DEFAULT_RUN_LIMIT_S, Keep, Plan, PlannedRun
from harness.errors import Problem, Problems, UsageError, nearest
from harness.preflight.looking import all_ready, preflight, why_left_out
from harness.scenario.file import find, shipped_names
from harness.scenario.model import Scenario
from harness.scenario.overrides import inline_toml
from harness.scenario.places import Override, Source
from harness.scenario.written import written_out
from harness.values import COUNT_MAX, Reader, count, flag, seconds, share, table_of, text, texts, whole

JOBS_MAX = 64
DEFAULT_SEED = 1
_SHIPPED = "shipped"
Tell = Callable[[str], None]


def _jobs(value: Any) -> int:
    if not 1 <= whole(value) <= JOBS_MAX:
        raise ValueError(f"between 1 and {JOBS_MAX} jobs are possible, not {value!r}")
    return int(value)


def _at_least_one(value: Any) -> int:
    if count(value) < 1:
        raise ValueError(f"at least one run is needed, not {value!r}")
    return int(value)


def _keep(value: Any) -> Keep:
    if value not in ("findings", "all"):
        raise ValueError(f'what is kept is "findings" or "all", not {value!r}')
    return "all" if value == "all" else "findings"


def _scenarios(value: Any) -> tuple[str, ...]:
    return tuple(shipped_names()) if value == _SHIPPED else texts([value] if isinstance(value, str) else value)


def _some(reader: Callable[[Any], Any]) -> Reader:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value:
            raise ValueError(f"a list is needed, not {value!r}")
        return tuple(reader(item) for item in value)

    return read


def _each(value: Any) -> dict[str, list[Any]]:
    for key, values in table_of(value).items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"{key}: a list of values is needed, not {values!r}")
    return dict(value)


CAMPAIGN: Mapping[str, Reader] = {
    "seed": whole,
    "jobs": _jobs,
    "time": seconds,
    "runs": _at_least_one,
    "inconclusive_share": share,
    "keep": _keep,
    "accepted": text,
    "until_found": flag,
    "run_limit": seconds,
    "stated_is_pass": flag,
}
MATRIX: Mapping[str, Reader] = {
    "scenarios": _scenarios,
    "systems": _some(text),
    "worlds": _some(text),
    "clients": _some(text),
    "seeds": _some(whole),
    "set": texts,
    "each": _each,
}
RANDOM: Mapping[str, Reader] = {"runs": _at_least_one, "profile": text, "system": text, "seed": whole}
_SECTIONS: Mapping[str, Mapping[str, Reader]] = {"campaign": CAMPAIGN, "matrix": MATRIX, "random": RANDOM}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One cell of a matrix before it is looked at."""

    reference: str
    overrides: tuple[Override, ...]
    seed: int


def read_campaign(file: Path, *, tell: Tell) -> Plan:
    """Raises Problems, UsageError. `tell` gets a line for each scenario that is not for a system of its matrix."""
    content, document = toml_of(file, what="campaign file")
    source = Source(content, str(file))
    for section in document:
        if section not in _SECTIONS:
            place = source.places.section(section)
            source.wrong(place, f"unknown section [{section}]; {nearest(section, list(_SECTIONS))}")
    settings = _table(source, "campaign", 0, document.get("campaign", {}))
    matrices = [_table(source, "matrix", *each) for each in _tables(source, document, "matrix")]
    randoms = [_table(source, "random", *each) for each in _tables(source, document, "random")]
    if not matrices and not randoms:
        source.wrong(source.places.line(1), "a campaign needs at least one [[matrix]] or [[random]]")
    if source.problems:
        raise Problems(source.problems)
    seed = settings.get("seed", DEFAULT_SEED)
    listed = listed_runs(file, [cell for matrix in matrices for cell in cells(file, matrix, seed)], tell=tell)
    runs = [*listed, *(run for each in randoms for run in drawn_runs(**{"seed": seed, "system": "reference", **each}))]
    if not runs:
        raise UsageError(f"{file}: none of its scenarios is for the systems it names")
    if len(runs) > COUNT_MAX:
        raise UsageError(f"{file}: {len(runs)} runs; at most {COUNT_MAX} are possible")
    accepted = settings.get("accepted")
    return Plan(
        name=file.stem,
        seed=seed,
        runs=tuple(replace(run, number=number) for number, run in enumerate(runs, 1)),
        jobs=settings.get("jobs", DEFAULT_JOBS),
        time_s=settings.get("time"),
        run_budget=settings.get("runs"),
        inconclusive_share=settings.get("inconclusive_share", 0.1),
        keep=settings.get("keep", "findings"),
        accepted_file=file.parent / accepted if accepted is not None else None,
        until_found=settings.get("until_found", False),
        stated_is_pass=settings.get("stated_is_pass", False),
        run_limit_s=settings.get("run_limit", DEFAULT_RUN_LIMIT_S),
    )


def _tables(source: Source, document: Mapping[str, Any], section: str) -> Iterator[tuple[int, Any]]:
    tables = document.get(section, [])
    if not isinstance(tables, list):
        source.wrong(source.places.section(section), f"write [[{section}]]: it can be repeated")
        return
    yield from enumerate(tables)


def _table(source: Source, section: str, index: int, table: Any) -> dict[str, Any]:
    known, found = _SECTIONS[section], {}
    if not isinstance(table, dict):
        source.wrong(source.places.section(section, index), f"[{section}] must be a table")
        return {}
    for key, value in table.items():
        with source.telling(lambda key=key: source.places.key(section, key, index=index)):  # type: ignore[misc]
            if key not in known:
                raise ValueError(f"unknown key {key!r} in [{section}]; {nearest(key, list(known))}")
            try:
                found[key] = known[key](value)
            except ValueError as error:
                raise ValueError(f"{key}: {error}") from error
    if section == "matrix":
        with source.telling(lambda: source.places.key(section, "scenarios", index=index)):
            for reference in found.get("scenarios", ()):
                find(_beside(Path(source.places.file), reference))
    if section == "matrix" and "scenarios" not in table:
        source.wrong(source.places.section(section, index), 'a matrix needs scenarios = ["name", "file.toml"]')
    if section == "random":
        if "runs" not in table:
            source.wrong(source.places.section(section, index), "drawn schedules need a number of runs")
        with source.telling(lambda: source.places.key(section, "profile", index=index)):
            profile_named(found.get("profile", "everything"))
    return found


def cells(file: Path, matrix: Mapping[str, Any], seed: int) -> Iterator[Wanted]:
    """Every combination, in the order of the file: scenario, system, world, client, each key of `each`, seed."""
    axes = [
        [("cluster.system", value) for value in matrix.get("systems", ())],
        [("cluster.world", value) for value in matrix.get("worlds", ())],
        [("workload.client", value) for value in matrix.get("clients", ())],
        *([(key, value) for value in values] for key, values in matrix.get("each", {}).items()),
    ]
    always = [Override(item, f"{file}: set {item}") for item in matrix.get("set", ())]
    for reference in matrix["scenarios"]:
        place = _beside(file, reference)
        for chosen in itertools.product(*(axis for axis in axes if axis)):
            overrides = [Override(f"{key}={inline_toml(value)}", f"{file}: {key}={value}") for key, value in chosen]
            for each in matrix.get("seeds", (seed,)):
                yield Wanted(reference=place, overrides=(*always, *overrides), seed=each)


def _beside(file: Path, reference: str) -> str:
    """A scenario's file is looked for beside the campaign's."""
    return str(file.parent / reference) if reference.endswith(".toml") else reference


def listed_runs(file: Path, wanted: Sequence[Wanted], *, tell: Tell) -> list[PlannedRun]:
    """Looks at every scenario once, whatever the number of seeds. What this machine cannot do is planned, and never
    begun. Raises Problems."""
    asked = list(dict.fromkeys((each.reference, each.overrides) for each in wanted))
    loaded = dict(zip(asked, all_ready(asked, leave_out=True), strict=True))
    for (reference, _), scenario in loaded.items():
        if why := why_left_out(scenario):
            tell(f"{reference}: {why}")
    return [
        planned(loaded[each.reference, each.overrides], seed=each.seed)
        for each in wanted
        if not loaded[each.reference, each.overrides].not_here
    ]


def planned(scenario: Scenario, *, seed: int) -> PlannedRun:
    """With no number yet."""
    return PlannedRun(
        number=0,
        scenario=scenario.name,
        text=written_out(scenario),
        system=scenario.cluster.system,
        world=scenario.cluster.world,
        client=scenario.workload.client,
        seed=seed,
        not_here=scenario.not_possible,
    )


def drawn_runs(
    *, runs: int, system: str, seed: int, profile: str = "everything", world: str = "local"
) -> list[PlannedRun]:
    """Schedules that are drawn when their turn comes. Raises Problems for a system on which none can run."""
    named = profile_named(profile)
    refuse_drawn(draw(named, system=system, seed=seed, number=0, seldom=None, world=world))
    return [
        PlannedRun(
            number=0,
            scenario=f"drawn-{profile}",
            text="",
            system=system,
            world=world,
            client="drawn",
            seed=seed,
            profile=profile,
            drawn=number,
        )
        for number in range(runs)
    ]


def refuse_drawn(scenario: Scenario) -> None:
    """Raises Problems."""
    problems: list[Problem] = preflight(scenario)
    if problems:
        raise Problems(problems)
