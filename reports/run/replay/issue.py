"""A finding as the text of an issue, in Markdown: verdict, finding, chain, settings, how to have it again, versions.

What a run says is data here too: no word of it becomes markup, a link or the mention of a person.
"""

import re
from collections.abc import Sequence

from harness.history.schema.evidence_rows import FindingRow
from harness.host.printable import visible
from reports.run.headline import headline, settings
from reports.run.replay.commands import commands
from reports.run.replay.made_of import made_of
from reports.run.story import cause_steps, evidence_of, rule_lines, worst
from reports.run_data import RunData, count_of, partition_name, span_of

_ACTIVE = re.compile(r"([\\`*_<>|~&\[\]#!])")
_AUTOLINK = re.compile(r"(?i)(https?|ftp|www|mailto)(?=[:.])")
_RULES = {True: "applies", False: "does not apply", None: "unknown"}
_SETTINGS_MAX, _VALUE_MAX = 20, 400


class IssueTexts:
    """Of the findings of one run: what they share is put together once."""

    def __init__(self, data: RunData) -> None:
        self._data = data
        self._worst = worst(data)
        self._settings = [one.text for one in settings(data)][:_SETTINGS_MAX]
        self._again = _fenced([command for _, command in commands(data)][:2])
        self._made_of = [f"- {plain(name)}: {plain(value)}" for name, value in made_of(data)]

    def of(self, finding: FindingRow) -> str:
        data = self._data
        is_worst = self._worst is not None and finding["finding"] == self._worst["finding"]
        title = headline(data) if is_worst else _title(finding)
        lines = [
            f"## {plain(title)}",
            "",
            f"**Verdict:** {plain(data.verdict['verdict'])}, exit code {data.verdict['exit_code']}. "
            f"{plain(data.verdict['sentence'])}",
            "",
            f"**Finding {plain(finding['finding'])}:** {plain(_title(finding))}. "
            f"{plain(data.readable(finding['sentence_text']))}",
            *_listed("What happened", _chain(data, finding)),
            *_listed("Rule by rule", _rules(data, finding)),
            *(_listed("Settings", [", ".join(code(text) for text in self._settings)]) if is_worst else ()),
            *_listed("To have it again", self._again),
            *_listed("Versions", self._made_of),
            "",
            f"Fingerprint {code(finding['fingerprint'])}, run {code(data.run['id'])}.",
        ]
        return "\n".join(lines)


def _title(finding: FindingRow) -> str:
    span = span_of(finding["offset_first"], finding["offset_last"])
    parts = [
        f"{finding['check']} ({finding['classification']})",
        partition_name(finding),
        f"offsets {span}" if span else "",
        f"count {count_of(finding['count'])}",
    ]
    return ", ".join(part for part in parts if part)


def _listed(heading: str, lines: Sequence[str]) -> list[str]:
    return ["", f"### {heading}", "", *lines] if lines else []


def _chain(data: RunData, finding: FindingRow) -> list[str]:
    return [
        f"{step.number}. {step.time}: **{plain(step.event)}**{' (decides it)' if step.decisive else ''}. "
        f"{plain(step.sentence)}".rstrip()
        for step in cause_steps(data, finding)
    ]


def _rules(data: RunData, finding: FindingRow) -> list[str]:
    return [
        f"- {_RULES[line.holds]}: {plain(line.rule)} {plain(line.evidence)}".rstrip()
        for line in rule_lines(data, evidence_of(finding))
    ]


def plain(text: object) -> str:
    """One line that Markdown shows as it is; what begins a link or a mention is parted from what follows."""
    text_shown = " ".join(visible(str(text)).split())
    text_shown = text_shown if len(text_shown) <= _VALUE_MAX * 4 else f"{text_shown[: _VALUE_MAX * 4]}…"
    parted = _AUTOLINK.sub(lambda found: f"{found[1]}\x00", _ACTIVE.sub(r"\\\1", text_shown)).replace("@", "@\x00")
    return parted.replace("\x00", "<!-- -->")


def code(text: object) -> str:
    """A code span with a fence longer than any in it."""
    text_shown = " ".join(visible(str(text)).split())[:_VALUE_MAX]
    fence = "`" * (max((len(run) for run in re.findall("`+", text_shown)), default=0) + 1)
    pad = " " if text_shown.startswith("`") or text_shown.endswith("`") or not text_shown else ""
    return f"{fence}{pad}{text_shown}{pad}{fence}"


def _fenced(lines: Sequence[str]) -> list[str]:
    text = [" ".join(visible(line).split("\n")) for line in lines]
    fence = "`" * max([3, *(len(run) + 1 for line in text for run in re.findall("`+", line))])
    return [f"{fence}sh", *text, fence] if text else []
