"""Jepsen's own cases, where Jepsen is blind, and random histories against the model: two Spark jobs in all."""

import json
import os
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from harness.checks.jepsen import HistoryAnswer, check_histories
from harness.checks.jepsen.own_rules import INCONCLUSIVE, REPORTED
from harness.history.jepsen.edn_reader import read_text
from harness.history.jepsen.imported import ImportedHistory
from harness.history.jepsen.jepsen_import import import_text
from tests.harness.checks.jepsen.build import cases, golden, history
from tests.harness.checks.jepsen.generator import Generated
from tests.harness.checks.jepsen.model import Died, Model, events_of, plain
from tests.harness.checks.jepsen.stories import BLIND_SPOTS, WITHOUT_VERDICT

RANDOM = int(os.environ.get("KAFKA_CHAOS_GENERATED_HISTORIES", "300"))
ASSIGN = frozenset({"assign"})
# Kinds of ours that make a history invalid.
BAD = frozenset(
    {
        "phantom",
        "read-before-send",
        "acknowledged-offset-regression",
        "head-skip",
        "tail-loss",
        "seen-only-by-aborted-poll",
        "torn-transaction",
        "aborted-read-in-aborted-poll",
    }
)

# Where our answer to one of Jepsen's own cases is another: (case, kind, what we say of it, why). "none": Jepsen says it
# and we do not; "own": we say it besides; "fewer": of the same kind, without the values named by the reason.
_NO_EVIDENCE = "no operation depends on another: that is no anomaly, but no verdict either (blind spot 5)"
_NO_DATA = "nothing was sent or read: there is nothing to judge (blind spot 3)"
_FALSE_UNSEEN = "the last ok operation was the first to touch the key, and it read the value (blind spot 4)"
_TAIL = "acknowledged above all that was read: lost or late, nobody asked for the log's end (blind spot 10)"
_FUTURE = "the history invokes the send after the polls that read its values (blind spot 6)"
_ABORTED = "a fail or info poll returned the values: they are in the log, though no ok poll read them (blind spot 12)"
_NOT_LOOKED_FOR = "of one operation's values one was read, and nobody came as far in the other key (blind spot 13)"
_TORN_LOST = "of one operation's values one was read, and one before it never (blind spot 13)"
_CANDIDATE = "of an info operation that a read proves, another value was never read (blind spot 14)"
DIFFERENCES = (
    ("inconsistent-offsets/info-unproven", "empty-transaction-graph", "none", _NO_EVIDENCE),
    ("inconsistent-offsets/info-unproven", "insufficient-evidence", "own", _NO_EVIDENCE),
    ("precommitted-read", "empty-transaction-graph", "none", _NO_EVIDENCE),
    ("precommitted-read", "insufficient-evidence", "own", _NO_EVIDENCE),
    ("empty-history", "empty-transaction-graph", "none", _NO_DATA),
    ("empty-history", "no-data", "own", _NO_DATA),
    ("g1a", "unseen", "none", _FALSE_UNSEEN),
    ("lost-write/atomic-unproven", "unseen", "none", _FALSE_UNSEEN),
    ("lost-write/atomic-proven", "unseen", "none", _FALSE_UNSEEN),
    ("inconsistent-offsets/info-proven", "unseen", "fewer", _FALSE_UNSEEN),
    ("int-nonmonotonic-send", "unseen", "fewer", _FALSE_UNSEEN),
    ("version-orders/real-world", "unread-tail", "own", _TAIL),
    ("inconsistent-offsets/info-unproven", "unread-tail", "own", _TAIL),
    ("inconsistent-offsets/info-proven", "unread-tail", "own", _TAIL),
    ("lost-write/consistent", "unread-tail", "own", _TAIL),
    ("poll-skip/info-can-skip", "unread-tail", "own", _TAIL),
    ("nonmonotonic-send/basic", "unread-tail", "own", _TAIL),
    ("nonmonotonic-send/subscribe-y", "unread-tail", "own", _TAIL),
    ("nonmonotonic-send/assign-y-info", "unread-tail", "own", _TAIL),
    ("nonmonotonic-send/subscribe-xy", "unread-tail", "own", _TAIL),
    ("nonmonotonic-send/assign-xy", "unread-tail", "own", _TAIL),
    ("int-nonmonotonic-send", "unread-tail", "own", _TAIL),
    ("g0", "unread-tail", "own", _TAIL),
    ("g1c-ww-wr", "unread-tail", "own", _TAIL),
    ("poll-skip/basic", "read-before-send", "own", _FUTURE),
    ("poll-skip/resubscribed-away", "read-before-send", "own", _FUTURE),
    ("poll-skip/still-subscribed", "read-before-send", "own", _FUTURE),
    ("poll-skip/abort-no-rollback", "lost-write", "none", _ABORTED),
    ("poll-skip/abort-no-rollback", "unseen", "none", _ABORTED),
    ("poll-skip/abort-no-rollback", "seen-only-by-aborted-poll", "own", _ABORTED),
    ("poll-skip/info-can-skip", "unseen", "fewer", _ABORTED),
    ("poll-skip/info-can-skip", "seen-only-by-aborted-poll", "own", _ABORTED),
    ("duplicate/aborted-txns", "unseen", "none", _ABORTED),
    ("duplicate/aborted-txns", "seen-only-by-aborted-poll", "own", _ABORTED),
    ("duplicate/aborted-txns", "aborted-read-in-aborted-poll", "own", "a fail poll returned an aborted value (row 15)"),
    ("lost-write/atomic-proven", "torn-transaction-candidate", "own", _CANDIDATE),
    ("int-send-skip", "torn-transaction", "own", _TORN_LOST),
    ("g1c-ww-wr", "torn-transaction-candidate", "own", _NOT_LOOKED_FOR),
)


def _jepsen_cases() -> dict[str, dict[str, Any]]:
    return {case["name"]: case for case in cases()}


@pytest.fixture(scope="module")
def compatible() -> Mapping[str, HistoryAnswer]:
    """Jepsen's answers to Jepsen's cases and to random histories."""
    texts = {name: case["edn"] for name, case in _jepsen_cases().items()}
    texts |= {f"random-{seed}": Generated(seed).edn for seed in range(RANDOM)}
    return _answers([import_text(name, text) for name, text in texts.items()], compatible=True)


@pytest.fixture(scope="module")
def ours() -> Mapping[str, HistoryAnswer]:
    histories = [import_text(name, case["edn"]) for name, case in _jepsen_cases().items()]
    for name, spot in BLIND_SPOTS.items():
        histories += [history(f"bad {name}", spot.bad), history(f"good {name}", spot.good)]
    histories += [history(name, story) for name, (_, story, _) in WITHOUT_VERDICT.items()]
    return _answers(histories, compatible=False)


def _answers(histories: list[ImportedHistory], *, compatible: bool) -> Mapping[str, HistoryAnswer]:
    known = _jepsen_cases()
    with_edges = [
        place for place, each in enumerate(histories) if known.get(each.name, {}).get("opts", {}).get("ww-deps")
    ]
    answers = check_histories(histories, ww_deps=with_edges, sub_via=ASSIGN, compatible=compatible)
    return {answer.name: answer for answer in answers}


# -- Jepsen's cases ---------------------------------------


def test_compatible_answers_to_jepsens_cases_are_jepsens(compatible: Mapping[str, HistoryAnswer]) -> None:
    for wanted in golden():
        answer = json.loads(compatible[wanted["name"]].as_json())

        assert answer == {name: wanted[name] for name in ("name", "errors", "bad-assign", "bad-subscribe")}


def test_our_answers_to_jepsens_cases_differ_by_the_table_only(ours: Mapping[str, HistoryAnswer]) -> None:
    found = set()
    for wanted in golden():
        name, errors = wanted["name"], wanted["errors"]
        answer = json.loads(ours[name].as_json())["errors"]
        found |= {(name, kind, "none") for kind in errors.keys() - answer.keys()}
        found |= {(name, kind, "own") for kind in answer.keys() - errors.keys()}
        found |= {(name, kind, "fewer") for kind in answer.keys() & errors.keys() if answer[kind] != errors[kind]}

    assert found == {(name, kind, how) for name, kind, how, _ in DIFFERENCES}


def test_our_kinds_are_beside_jepsens_and_bad_where_they_are_anomalies(ours: Mapping[str, HistoryAnswer]) -> None:
    for wanted in golden():
        answer = ours[wanted["name"]]
        own = answer.errors.keys() - wanted["errors"].keys()
        left = set(wanted["bad-assign"]) & answer.errors.keys()

        assert own <= BAD | REPORTED | INCONCLUSIVE
        assert set(answer.bad_assign) == left | own & BAD
        assert answer.bad == answer.bad_assign
        assert set(answer.inconclusive) == own & INCONCLUSIVE


# -- the model --------------------------------------------

_UNORDERED = ("duplicate", "inconsistent-offsets")  # between keys, Jepsen's order is that of a hash trie


def _comparable(errors: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: sorted(json.dumps(one, sort_keys=True) for one in found) if name in _UNORDERED else found
        for name, found in errors.items()
        if not (name.startswith(("G0", "G1c")) or name.endswith("-cycle-exists") or name == "empty-transaction-graph")
    }


def test_compatible_answers_agree_with_the_model_on_random_histories(compatible: Mapping[str, HistoryAnswer]) -> None:
    for seed in range(RANDOM):
        model = Model(events_of([event for _, event in read_text(Generated(seed).edn)]))
        answer = json.loads(compatible[f"random-{seed}"].as_json())
        if "unknown" in answer:
            with pytest.raises(Died) as died:
                model.errors()
            assert answer == {"name": f"random-{seed}", "unknown": str(died.value)}
            continue

        assert _comparable(answer["errors"]) == _comparable(plain(model.errors())), f"seed {seed}"


def test_random_histories_show_every_rule_and_are_not_all_wrong() -> None:
    seen: dict[str, int] = {}
    for seed in Random(1).sample(range(10_000), 200):
        try:
            errors = Model(events_of([event for _, event in read_text(Generated(seed).edn)])).errors()
        except Died as died:
            errors = {str(died): True}
        for name in errors:
            seen[name] = seen.get(name, 0) + 1

    assert {
        "lost-write",
        "duplicate",
        "inconsistent-offsets",
        "G1a",
        "int-poll-skip",
        "precommitted-read",
    } <= seen.keys()
    assert {
        "poll-skip",
        "nonmonotonic-poll",
        "int-nonmonotonic-poll",
        "IndexOutOfBoundsException",
        "ClassCastException",
    } <= seen.keys()
    assert all(count < 200 for count in seen.values())


# -- blind spots ------------------------------------------


@pytest.mark.parametrize("name", BLIND_SPOTS)
def test_a_blind_spot_is_seen_and_it_alone(name: str, ours: Mapping[str, HistoryAnswer]) -> None:
    spot = BLIND_SPOTS[name]

    assert ours[f"bad {name}"].errors.keys() == spot.ours | spot.jepsens
    assert ours[f"bad {name}"].inconclusive == []


@pytest.mark.parametrize("name", BLIND_SPOTS)
def test_its_sound_neighbour_is_silent(name: str, ours: Mapping[str, HistoryAnswer]) -> None:
    assert ours[f"good {name}"].errors == {}


@pytest.mark.parametrize("name", WITHOUT_VERDICT)
def test_no_evidence_is_no_verdict_and_no_anomaly(name: str, ours: Mapping[str, HistoryAnswer]) -> None:
    _, _, why = WITHOUT_VERDICT[name]

    assert ours[name].inconclusive == [why]
    assert set(ours[name].bad) <= {"unseen"}


def test_what_is_found_names_operations_keys_and_values(ours: Mapping[str, HistoryAnswer]) -> None:
    def errors(name: str) -> Any:
        return json.loads(ours[f"bad {name}"].as_json())["errors"]

    assert errors("phantom")["phantom"] == [{"key": "x", "value": 99, "reader": {"op-index": 5}}]
    assert errors("acknowledged-offset-regression")["acknowledged-offset-regression"] == [
        {"key": "x", "values": [1, 2], "offsets": [5, 3], "ops": [{"op-index": 5}, {"op-index": 7}]}
    ]
    assert errors("head-skip")["head-skip"] == [
        {"key": "x", "value": 2, "index": 2, "skipped": [0, 1], "ops": [{"op-index": 15}, {"op-index": 17}]}
    ]
    assert errors("tail-loss")["tail-loss"] == [
        {
            "key": "x",
            "value": value,
            "offset": value,
            "end-offset": 1,
            "told": {"op-index": 13},
            "writer": {"op-index": writer},
        }
        for value, writer in ((1, 7), (2, 9))
    ]
    assert errors("torn-transaction")["torn-transaction"] == [
        {"op": {"op-index": 5}, "missing": [{"key": "y", "value": 2}]}
    ]
    assert errors("group-redelivery")["group-redelivery"] == [
        {"key": "x", "values": 1, "deliveries": 2, "first": {"value": 1, "ops": [{"op-index": 11}, {"op-index": 13}]}}
    ]


def test_no_histories_are_no_answers() -> None:
    assert check_histories([], ww_deps=True, sub_via=ASSIGN, compatible=True) == []
