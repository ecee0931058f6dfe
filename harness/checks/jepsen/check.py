"""All histories of a call in one go: stages, then the flagged rows of every rule at once, then cycles."""

import tempfile
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from harness.checks.cycles import Mode, Search, jepsen_errors, search_histories
from harness.checks.jepsen.allowed import bad_names
from harness.checks.jepsen.answers import HistoryAnswer, Row, RunRows, death, log_errors
from harness.checks.jepsen.own_answers import EMPTY_GRAPH, own_errors, without_verdict
from harness.checks.jepsen.own_rules import INCONCLUSIVE, NOT_SEARCHED, OWN_RULES, READ_WRITE_CYCLES
from harness.checks.jepsen.rules import Stages, jepsen_queries, rows_of
from harness.checks.jepsen.staging import Staging
from harness.checks.jepsen.values import fold_values
from harness.checks.jepsen.version_orders import version_orders
from harness.checks.jepsen.walks import walks
from harness.history.imported import ImportedHistory, together


def check_histories(
    spark: SparkSession, histories: Sequence[ImportedHistory], *, ww_deps: bool | Collection[int],
    sub_via: frozenset[str], compatible: bool,
) -> list[HistoryAnswer]:  # fmt: skip
    """See the package. ww_deps: for all, or the places in `histories` of those that infer them.

    sub_via: how consumers came to their keys, which decides `HistoryAnswer.bad`."""
    if not histories:
        return []
    with_edges = set(range(len(histories))) if ww_deps is True else set(ww_deps or ())
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-jepsen-") as folder:
        stages = _stages(spark, Staging(spark, Path(folder)), histories, compatible=compatible)
        queries = {**jepsen_queries(compatible=compatible), **({} if compatible else OWN_RULES)}
        by_run: dict[int, list[Row]] = defaultdict(list)
        for row in rows_of(spark, stages, queries).toArrow().to_pylist():
            by_run[row["run"]].append(row)
        search = _search(spark, stages, histories, with_edges)
        # In a log the order of writes is known, so the edges that Jepsen leaves out need no assumption.
        full = None if compatible else _search(spark, stages, histories, True, Mode.FULL)
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


def _stages(spark: SparkSession, staging: Staging, histories: Sequence[ImportedHistory], *, compatible: bool) -> Stages:
    frames = staging.tables(together(histories))
    # Jepsen looks at completions only; to us an operation without an answer is one of which nobody knows.
    records = frames["records"].where("t1 is not null") if compatible else frames["records"]
    ops, keys = frames["ops"], frames["imported_keys"]
    versions = version_orders(spark, records, staging)
    values = fold_values(spark, records, versions, staging)
    walked = walks(spark, staging, records=records, ops=ops, keys=keys, values=values, lenient=not compatible)
    return Stages(records=records, ops=ops, keys=keys, versions=versions, values=values, walks=walked)


def _search(
    spark: SparkSession, stages: Stages, histories: Sequence[ImportedHistory], with_edges: bool | Collection[int],
    mode: Mode = Mode.JEPSEN,
) -> Search:  # fmt: skip
    ops = stages.ops.where("i1 is not null and f in ('txn', 'send', 'poll')")
    records = stages.records.where("t1 is not null and kind in (0, 1)")
    if mode is Mode.FULL:  # between transactions only: see READ_WRITE_CYCLES
        ops = ops.where("f = 'txn'")
        records = records.join(ops.select("run", "op"), ["run", "op"], "left_semi")
    return search_histories(
        spark, records=records, ops=ops, orders=stages.versions.orders,
        mode=mode, ww_deps=with_edges, key_of=lambda run, tp: histories[run].keys[tp],
    )  # fmt: skip


def _cycles(search: Search, place: int, run: RunRows) -> dict[str, Any]:
    errors = jepsen_errors(search, place, key_of=run.key, value_of=lambda _, value: run.value(value))
    for statement in (each for name in errors if name.endswith("-cycle-exists") for each in errors[name]):
        statement["scc"].sort(key=str)  # a set, as the golden answers write sets
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
        name=name, errors=dict(sorted(errors.items())), bad=bad_names(errors, sub_via=sub_via, ww_deps=ww_deps),
        bad_assign=bad_names(errors, sub_via=frozenset({"assign"}), ww_deps=ww_deps),
        bad_subscribe=bad_names(errors, sub_via=frozenset({"subscribe"}), ww_deps=ww_deps),
        inconclusive=sorted(INCONCLUSIVE & errors.keys()),
    )  # fmt: skip
