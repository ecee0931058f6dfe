"""The scenario of a stored run: it is read though the package of its workload or of a fault is not installed here."""

from collections.abc import Mapping
from typing import Any

from harness.history.run_folder import RunFolder
from harness.ports.load import LoadFacts, WorkloadSpec
from harness.scenario.file import drafted
from harness.scenario.model import Scenario
from harness.scenario.workloads import RecordedWorkload, settings_of


def scenario_of(folder: RunFolder) -> Scenario:
    """The scenario that the folder is a run of; the workload of a package that is not installed here is as it was."""

    def workload_of(name: str) -> type[WorkloadSpec] | None:
        facts = folder.run.get("workload")
        return settings_of(name) or (recorded(name, facts) if facts is not None else None)

    return drafted(str(folder.path)).scenario(workload_of=workload_of)


def recorded(name: str, facts: Mapping[str, Any]) -> type[RecordedWorkload]:
    """A class for that workload. `facts`: the fields of its LoadFacts, from run.json."""
    lists = {name: tuple(facts.get(name, ())) for name in ("outputs", "transactional_ids")}
    load_facts = LoadFacts(**{**facts, **lists})
    own = {"name": name, "facts": property(lambda self: load_facts), "__module__": __name__}
    return type("Recorded", (RecordedWorkload,), own)
