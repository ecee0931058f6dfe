"""Jepsen's own 37 cases: its cycles, its "a cycle exists", its empty graphs, in its own form."""

from typing import Any

from harness.checks.cycles import Mode, jepsen_errors
from tests.harness.checks.cycles.histories import SearchHistory, searched
from tests.harness.checks.jepsen.build import cases, golden

CYCLIC = ("G0", "G1c", "PL-", "strong-PL-", "empty-transaction-graph", "cycle-search-timeout")


def _history_of(case: dict[str, Any], answer: dict[str, Any]) -> SearchHistory:
    history = SearchHistory()
    open_invocations: dict[int, int] = {}
    for event in case["ops"]:
        if event["type"] == "invoke":
            open_invocations[event["process"]] = event["index"]
            continue
        begin = open_invocations.pop(event["process"])
        history.operation(event["index"], begin, event["f"], event["type"])
        for mop, (kind, *rest) in enumerate(event["value"] if event["f"] in ("txn", "send", "poll") else ()):
            if kind == "send":
                value = rest[1][1] if isinstance(rest[1], list) else rest[1]
                history.sent(event["index"], mop, str(rest[0]), value)
            elif rest:
                for key, pairs in rest[0].items():
                    history.read(event["index"], mop, str(key), [value for _, value in pairs])
    for key, order in answer["version-orders"].items():
        history.orders[str(key)] = order["by-index"] if isinstance(order, dict) else order
    return history


def test_every_case_of_the_oracle_has_jepsens_cycles() -> None:
    answers, known = {answer["name"]: answer for answer in golden()}, cases()
    history = [_history_of(case, answers[case["name"]]) for case in known]
    with_ww = [run for run, case in enumerate(known) if case["opts"].get("ww-deps")]
    search = searched(history, Mode.JEPSEN, ww_deps=with_ww)
    assert not search.not_searched
    for run, case in enumerate(known):
        wanted = {
            name: _canonical(found)
            for name, found in answers[case["name"]]["errors"].items()
            if name.startswith(CYCLIC)
        }
        found = jepsen_errors(search, run, key_of=history[run].key_of, value_of=history[run].value_of)
        assert {name: _canonical(one) for name, one in found.items()} == wanted, case["name"]


def _canonical(found: Any) -> Any:
    """The golden answers list sets in the order of their members' text."""
    if isinstance(found, list):
        return [{**one, "scc": sorted(one["scc"])} if "scc" in one else one for one in found]
    return found
