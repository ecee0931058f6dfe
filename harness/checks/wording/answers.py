"""What brokers answered to producers' requests, in words."""

from collections.abc import Mapping, Sequence

from harness.checks.model.answered_errors import Answered, Explanation
from harness.checks.wording.words import nodes_words, plural

_NAMED_MAX = 3
_BY: Mapping[str, str] = {
    "retention": "retention removed the producer's last record ({setting}; {partition} begins at {offset})",
    "isr": "the ISR of {partition} was down to {nodes} ({setting})",
    "leader": "{partition} had gone to {nodes}",
    "deletion": "the topic of {partition} had been deleted",
    "disk": "a fault had the disk of {nodes}",
}


def answered_words(found: Sequence[Answered]) -> str:
    """ "" without any."""
    words = [_answered(each) for each in found[:_NAMED_MAX]]
    if len(found) > _NAMED_MAX:
        words.append(plural(len(found) - _NAMED_MAX, "other error"))
    return "; ".join(words)


def _answered(answer: Answered) -> str:
    said = f"{plural(answer.count, 'attempt')} {plural(answer.count, 'was')} answered {answer.error}"
    if answer.error.meaning:
        said += f": {answer.error.meaning}"
    return said if answer.explanation is None else f"{said}. What explains it: {_explained(answer.explanation)}"


def _explained(by: Explanation) -> str:
    return _BY[by.by].format(
        partition=by.partition,
        nodes=nodes_words(by.nodes) if by.nodes else "nobody",
        offset=by.offset,
        setting=", ".join(f"{setting.key}={setting.value}" for setting in by.settings),
    )
