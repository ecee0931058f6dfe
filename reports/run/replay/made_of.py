"""What a run was made of: versions, commits as they were when it began, the machine, the topics' layouts."""

from typing import Any

from reports.run_data import RunData

_SHORT = 12  # digits of a commit that people read; the whole name is in run.json


def made_of(data: RunData) -> list[tuple[str, str]]:
    """(what, which) in the order in which a reader asks for it."""
    versions: dict[str, Any] = dict(data.run.get("versions") or {})
    commits = data.run.get("commits") or {}
    own = str(versions.pop("kafka-chaos", "not recorded"))
    rows = [("kafka-chaos", ", ".join(part for part in (own, commit_words(commits.get("kafka-chaos"))) if part))]
    given = data.run.get("given")
    if given is not None:
        words = commit_words(commits.get("scenario"))
        rows.append(("scenario", ", ".join(part for part in (str(given["scenario"]), words) if part)))
    all_versions: dict[str, Any] = {**versions, **data.environment}
    return [*rows, *((str(key), str(value)) for key, value in all_versions.items())]


def commit_words(commit: Any) -> str:
    """When it began: "commit 2ed4b69f03aa", and whether that is all that there was."""
    if commit is None:
        return ""
    state = {"as committed": "", "modified": ", modified since", "not committed": ", in which it is not"}
    return f"commit {commit['commit'][:_SHORT]}{state[commit['state']]}"


def layouts(data: RunData) -> list[tuple[str, str]]:
    rows = []
    for topic in data.scenario.topics:
        layout = topic.assignment or f"{topic.partitions} partitions, replication factor {topic.replicas}"
        rows.append((f"topic {topic.name}", str(layout).replace("(", "[").replace(")", "]")))
    return rows
