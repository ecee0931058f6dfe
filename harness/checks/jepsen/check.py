"""All histories of a call in one go: stages, then the flagged rows of every rule, then cycles."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from harness.checks.cycles import Search, jepsen_errors
from harness.checks.jepsen.answers import HistoryAnswer, RunRows, death, log_errors
from harness.checks.jepsen.columns import RuleRow, records_of
from harness.checks.jepsen.own_answers import EMPTY_GRAPH, own_errors, without_verdict
from harness.checks.jepsen.own_rules import INCONCLUSIVE, NOT_SEARCHED, OWN_RULES, READ_WRITE_CYCLES, REPORTED
from harness.checks.jepsen.rules import RULES, RuleInputs, bounds_of
from harness.checks.jepsen.searches import Searches
from harness.checks.jepsen.steps import steps_of
from harness.checks.jepsen.values import values_of
from harness.checks.jepsen.version_orders import version_orders
from harness.checks.jepsen.walks import walk_of
from harness.history.jepsen.imported import ImportedHistory, together

# Which anomalies leave a history valid: Jepsen's `allowed-error-types` (jepsen.tests.kafka), and of ours what is noted.
# Kafka never isolates writes from one another.
_ALWAYS = frozenset(
    {
        "int-send-skip",
        "G0",
        "G0-process",
        "G0-realtime",
        "PL-1-cycle-exists",
        "strong-PL-1-cycle-exists",
    }
)
# A group may move partitions between two polls.
_SUBSCRIBED = frozenset({"poll-skip", "nonmonotonic-poll"})
# With edges between writes, cycles through them are to be expected.
_WRITE_EDGES = frozenset(
    {
        "G1c",
        "G1c-process",
        "G1c-realtime",
        "PL-2-cycle-exists",
        "strong-PL-2-cycle-exists",
    }
)


def check_histories(
    histories: Sequence[ImportedHistory],
    *,
    ww_deps: bool | Collection[int],
    sub_via: frozenset[str],
    compatible: bool,
) -> list[HistoryAnswer]:
    """See the package. ww_deps: for all, or the places in `histories` of those that infer them.

    sub_via: how consumers came to their keys, which decides `HistoryAnswer.bad`."""
    if not histories:
        return []
    with_edges = set(range(len(histories))) if ww_deps is True else set(ww_deps or ())
    tables = together(histories)
    inputs, orders = inputs_of(tables, lenient=not compatible)
    by_run: dict[int, dict[str, list[RuleRow]]] = defaultdict(lambda: defaultdict(list))
    for rule, found in {**RULES, **({} if compatible else OWN_RULES)}.items():
        for row in found(inputs):
            by_run[row["run"]][rule].append(row)
    searches = Searches(histories, tables, inputs.records, orders)
    search = searches.as_jepsen(with_edges)
    # In a log the order of writes is known, so the edges that Jepsen leaves out need no assumption.
    full = None if compatible else searches.between_transactions()
    answers = []
    for place, history in enumerate(histories):
        run = RunRows(history, by_run[place])
        cycles = _cycles(search, place, run)
        if full is not None:
            more = _cycles(full, place, run)
            cycles |= {name: found for name, found in more.items() if name in READ_WRITE_CYCLES}
            if left_out := [*cycles.get(NOT_SEARCHED, ()), *more.get(NOT_SEARCHED, ())]:
                cycles[NOT_SEARCHED] = list(dict.fromkeys(left_out))
        answers.append(_answer(run, cycles, ww_deps=place in with_edges, sub_via=sub_via, compatible=compatible))
    return answers


def inputs_of(tables: Mapping[str, pa.Table], *, lenient: bool) -> tuple[RuleInputs, pa.Table]:
    """And the version orders."""
    # Jepsen looks at completions only; to us an operation without an answer is one of which nobody knows.
    records = records_of(tables, completed_only=not lenient)
    versions = version_orders(records)
    values = values_of(records, versions)
    steps, lanes = steps_of(records, values)
    inputs = RuleInputs(
        records=records,
        versions=versions,
        values=values,
        steps=steps,
        walk=walk_of(lanes, tables, seeks=lenient),
        operations=tables["operations"],
        lenient=lenient,
        bounds=bounds_of(records, values),
    )
    return inputs, versions.orders(records)


def _cycles(search: Search, place: int, run: RunRows) -> dict[str, Any]:
    errors = jepsen_errors(search, place, key_of=run.key, value_of=lambda _, value: run.value(value))
    for each in (each for found in errors.values() if isinstance(found, list) for each in found):
        if "scc" in each:
            each["scc"].sort(key=str)  # a set, as the golden answers write sets
    if left_out := search.not_searched.get(place):
        errors[NOT_SEARCHED] = [one.reason for one in left_out]
    return errors


def _answer(
    run: RunRows, cycles: Mapping[str, Any], *, ww_deps: bool, sub_via: frozenset[str], compatible: bool
) -> HistoryAnswer:
    name = run.history.name
    if compatible and (unknown := death(run)) is not None:
        return HistoryAnswer(name=name, unknown=unknown)
    errors = log_errors(run, compatible=compatible) | dict(cycles)
    if not compatible:
        errors |= own_errors(run) | without_verdict(run, cycles)
        errors.pop(EMPTY_GRAPH, None)
    return HistoryAnswer(
        name=name,
        errors=dict(sorted(errors.items())),
        bad=_bad_names(errors, sub_via=sub_via, ww_deps=ww_deps),
        bad_assign=_bad_names(errors, sub_via=frozenset({"assign"}), ww_deps=ww_deps),
        bad_subscribe=_bad_names(errors, sub_via=frozenset({"subscribe"}), ww_deps=ww_deps),
        inconclusive=sorted(INCONCLUSIVE & errors.keys()),
    )


def _bad_names(names: Iterable[str], *, sub_via: frozenset[str], ww_deps: bool) -> list[str]:
    allowed = _ALWAYS | REPORTED | INCONCLUSIVE
    if "subscribe" in sub_via:
        allowed |= _SUBSCRIBED
    if ww_deps:
        allowed |= _WRITE_EDGES
    return sorted(name for name in names if name not in allowed)
