"""Commands to have a run again, to change one thing of it, and to judge it, quoted for a shell.

The scenario is named as the user named it, its folder as it is reached from where the page was made.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.history.schema.cluster_rows import STEPS
from harness.host.printable import for_a_shell
from harness.scenario.file import seed_names, shipped_names
from reports.run.settings import MIN_INSYNC, known_settings, preventing
from reports.run.story import evidence_of, worst
from reports.run_data import RunData

SAME_AGAIN = "The same scenario and seed"
CHANGED = ("One thing changed", "Another thing changed")
_OPTIONS = {
    "cluster.system": "--system",
    "cluster.world": "--world",
    "cluster.bootstrap": "--bootstrap",
    "workload.client": "--client",
}


def commands(data: RunData) -> Sequence[tuple[str, str]]:
    place = data.place
    return [
        *_same_again(data),
        ("This run's own schedule", f"kafka-chaos run {place}"),
        *_changes(data),
        ("Judge and render what was recorded", f"kafka-chaos check {place} && kafka-chaos report {place}"),
    ]


def _same_again(data: RunData) -> list[tuple[str, str]]:
    """Not of runs stored before their scenario's place was, unless it is one of ours."""
    given = data.run.get("given")
    named = given["scenario"] if given is not None else _shipped(data.scenario.name)
    if not named:
        return []
    words = ["kafka-chaos", "run", for_a_shell(named)]
    words += ["--seed", str(data.run["seed"])] if data.run["seed"] is not None else []
    for override in (given or {}).get("overrides") or ():
        key, _, value = str(override).partition("=")
        words += _option(_OPTIONS[key], value) if key in _OPTIONS else _option("--set", str(override))
    return [(SAME_AGAIN, " ".join(words))]


def _option(name: str, value: str) -> list[str]:
    """What begins with a dash would be taken for an option of its own."""
    return [f"{name}={shlex.quote(value)}"] if value.startswith("-") else [name, shlex.quote(value)]


def _shipped(name: str) -> str:
    """A scenario's name as `run` takes it; its folder's name has no slash."""
    return next((one for one in (*shipped_names(), *seed_names()) if one.replace("/", "-") == name), "")


def _changes(data: RunData) -> list[tuple[str, str]]:
    """A command for each setting that would have prevented it, or for the one that is worth a try."""
    finding = worst(data)
    ways = preventing(evidence_of(finding)) if finding is not None else ()
    asked = [row["arguments"] for row in data.rows(STEPS) if row["kind"] == "act"]
    if None in asked:
        return []  # of runs stored before nobody knows what their steps set
    acts = {key for arguments in asked if arguments is not None for key in _keys(json.loads(arguments))}
    # A step of the plan that sets the same key would undo the change.
    wanted = [f"{key}={value}" for key, value in ways if key != "acks" and key not in acts]
    if not any(key in acts for key, _ in ways):
        wanted = wanted or [_change(data)]
    return [
        (name, f"kafka-chaos run {data.place} --set {shlex.quote(way)}")
        for name, way in zip(CHANGED, wanted, strict=False)
    ]


def _keys(table: Any) -> Iterator[str]:
    """Of a step's arguments, the settings in them too."""
    if isinstance(table, Mapping):
        for key, value in table.items():
            yield key
            yield from _keys(value)


def _change(data: RunData) -> str:
    """The setting that "what would have prevented it" speaks of, so that its claim can be run."""
    finding = worst(data)
    cause = evidence_of(finding).get("cause") if finding is not None else None
    if cause == "unclean-election" and finding is not None and finding["classification"] == "permitted":
        return "unclean.leader.election.enable=false"
    if cause == "fail-over" and data.scenario.workload.name != "none":
        return "workload.acks=all"
    now = known_settings(data, finding)[MIN_INSYNC]
    return f"{MIN_INSYNC}={'1' if now == '2' else '2'}"
