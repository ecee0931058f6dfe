"""A fingerprint is the same wherever the same kind of thing is found, and another where the kind is another."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.checks.contract.rulings import CAUSE_CODES, Cause, Doubt
from harness.checks.findings import Finding
from harness.checks.model.elections import NOWHERE, Election
from harness.checks.model.settings import SettingsOverTime
from harness.checks.model.unclean_rules import UncleanRules
from harness.checks.wording import causes as wording
from harness.history.facts.finding_facts import Setting

BY_DEFAULT = UncleanRules(SettingsOverTime(), [], None).at("t", 0, begin=0, end=0)

UNCLEAN = Setting(key="unclean.leader.election.enable", value="true", scope="topic")
NUMBERS = st.integers(min_value=0, max_value=2**40)
NODES = st.lists(st.integers(min_value=0, max_value=200), max_size=5).map(tuple)
KINDS = st.lists(st.sampled_from(("kill", "cut", "pause", "wipe", "slow")), max_size=4)


def election(epoch: int = 5, leader: int = 2, start: int | None = 1247) -> Election:
    return Election(
        time_ns=10 * epoch,
        uncertainty_ns=0,
        epoch=epoch,
        leader=leader,
        leader_before=1,
        unclean=True,
        isr=(leader,),
        isr_before=(1,),
        elr_before=(),
        start=start,
        start_from=NOWHERE,
        permission=BY_DEFAULT,
    )


def finding(**changes: object) -> Finding:
    fields: dict[str, Any] = {
        "run": 0,
        "check": "lost-write",
        "classification": "permitted",
        "kind": "lost",
        "topic": "orders",
        "partition": 0,
        "count": 3,
        "sentence": "3 values.",
        "epoch": 5,
        "offsets": [1, 2],
        "values": [7],
        "first_ns": 10,
        "cause": Cause(code="unclean-election", election=election(), settings=(UNCLEAN,)),
        "fault_kinds": ["cut"],
    }
    return Finding(**{**fields, **changes})


ELSEWHERE = st.fixed_dictionaries(
    {
        "run": st.integers(0, 50),
        "topic": st.text(max_size=20) | st.none(),
        "partition": st.integers(0, 99) | st.none(),
        "count": NUMBERS,
        "epoch": NUMBERS | st.none(),
        "offsets": st.lists(NUMBERS, max_size=4),
        "values": st.lists(NUMBERS, max_size=4),
        "operations": st.lists(NUMBERS, max_size=4),
        "first_ns": NUMBERS | st.none(),
        "last_ns": NUMBERS | st.none(),
        "faults": st.lists(st.integers(0, 9), max_size=3),
        "sentence": st.text(),
        "evidence": st.dictionaries(st.text(max_size=5), NUMBERS, max_size=3),
        "cause": st.builds(
            lambda epoch, leader, start, nodes, offset, partition: Cause(
                code="unclean-election",
                election=election(epoch, leader, start),
                settings=(UNCLEAN,),
                epoch=epoch,
                offset=offset,
                nodes=nodes,
                partitions=(partition,),
                number=offset,
            ),
            NUMBERS,
            st.integers(0, 9),
            NUMBERS | st.none(),
            NODES,
            NUMBERS,
            st.text(max_size=8),
        ),
    }
)


@pytest.mark.slow
@given(ELSEWHERE)
def test_topic_offsets_counts_times_nodes_and_words_change_no_fingerprint(changes: dict[str, Any]) -> None:
    assert finding(**changes).fingerprint == finding().fingerprint


@given(kinds=KINDS, shuffled=st.randoms())
def test_how_often_and_in_which_order_faults_struck_changes_none(kinds: list[str], shuffled: Any) -> None:
    again = kinds * 2
    shuffled.shuffle(again)
    assert finding(fault_kinds=again).fingerprint == finding(fault_kinds=kinds).fingerprint


def cause(code: Any = "unclean-election", **fields: Any) -> Cause:
    return Cause(code=code, **{"settings": (UNCLEAN,), **fields})


FACTS = st.fixed_dictionaries(
    {
        "check": st.sampled_from(("lost-write", "duplicate")),
        "classification": st.sampled_from(("violation", "permitted", "observation")),
        "kind": st.sampled_from(("lost", "undecided", "moved")),
        "fault_kinds": KINDS.map(lambda kinds: tuple(sorted(set(kinds)))),
        "apart": st.sampled_from(("", "1", "2")),
        "cause": st.builds(
            cause,
            st.sampled_from(CAUSE_CODES),
            by=st.none() | st.sampled_from(("fail-over", "destruction")),
            doubt=st.none() | st.sampled_from((Doubt(code="no-epochs-told"), Doubt(code="attempts-not-told"))),
            settings=st.sampled_from(((), (UNCLEAN,), (Setting(key=UNCLEAN.key, value="false", scope="topic"),))),
        ),
    }
)


@given(FACTS, FACTS)
def test_two_findings_have_one_fingerprint_only_if_all_their_facts_are_the_same(
    one: Mapping[str, Any], other: Mapping[str, Any]
) -> None:
    assert (finding(**one).fingerprint == finding(**other).fingerprint) == (one == other)


@pytest.mark.parametrize(
    "changes",
    [
        {"check": "dirty-read"},
        {"classification": "violation"},
        {"kind": "moved"},
        {"cause": cause("fail-over")},
        {"cause": None},
        {"cause": cause(settings=())},
        {"cause": cause(settings=(Setting(key=UNCLEAN.key, value="false", scope="topic"),))},
        {"fault_kinds": ["cut", "kill"]},
        {"fault_kinds": []},
        {"apart": "3"},
    ],
)
def test_another_kind_of_thing_has_another(changes: dict[str, object]) -> None:
    assert finding(**changes).fingerprint != finding().fingerprint


def test_who_set_it_is_no_part_of_it() -> None:
    by_brokers = Setting(key=UNCLEAN.key, value=UNCLEAN.value, scope="broker", of_scenario=True)
    assert finding(cause=cause(settings=(by_brokers,))).fingerprint == finding().fingerprint


def test_rewording_every_cause_leaves_all_fingerprints() -> None:
    every = [finding(cause=cause(code, election=election(), by="fail-over", nodes=(1,))) for code in CAUSE_CODES]
    before = [one.fingerprint for one in every]
    said = [one.as_row("F1")["cause_text"] for one in every]
    with patch.object(wording, "_WORDS", dict.fromkeys(wording._WORDS, "otherwise said")):
        assert [one.as_row("F1")["cause_text"] for one in every] != said
        assert [one.fingerprint for one in every] == before
        assert [one.as_row("F1")["fingerprint"] for one in every] == before


def test_every_cause_has_words() -> None:
    whole = {
        "election": election(),
        "by": "fail-over",
        "doubt": Doubt(code="no-epochs-told"),
        "nodes": (1, 2),
        "offset": 3,
        "epoch": 4,
        "number": 5,
        "partitions": ("orders-0",),
        "check": "duplicate",
    }
    for code in CAUSE_CODES:
        words = wording.cause_words(cause(code, **whole))
        assert words, code
        assert "None" not in words, code
        assert "{" not in words, code
