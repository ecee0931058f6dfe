"""A finding's facts survive storage in its evidence; facts of a newer program can be read too."""

import json
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from harness.history.facts.finding_facts import (
    ChainLink,
    Hold,
    LinkEvent,
    Remedy,
    RemedyCode,
    Scope,
    Setting,
    chain_of,
    remedies_of,
    setting_of,
)

NUMBER = st.integers(min_value=0, max_value=2**60)
MAYBE = st.none() | NUMBER
NODES = st.lists(st.integers(0, 200), max_size=4).map(tuple)
LINKS = st.builds(
    ChainLink,
    t_ns=NUMBER,
    event=st.sampled_from(get_args(LinkEvent)),
    sentence=st.text(max_size=30),
    decisive=st.booleans(),
    nodes=NODES,
    fault=MAYBE,
    t_end_ns=MAYBE,
    epoch_before=MAYBE,
    epoch_after=MAYBE,
    offset_before=MAYBE,
    offset_after=MAYBE,
    unclean=st.none() | st.booleans(),
    isr_before=st.none() | NODES,
    isr_after=st.none() | NODES,
    held_by=st.none() | st.sampled_from(get_args(Hold)),
    held_s=st.none() | st.floats(0, 1e6),
    leader=MAYBE,
    count=MAYBE,
    acks=NODES,
    in_sync=NODES,
    reason_text=st.none() | st.text(max_size=20),
    deposed=st.none() | st.booleans(),
)
REMEDIES = st.builds(
    Remedy,
    code=st.sampled_from(get_args(RemedyCode)),
    key=st.none() | st.text(),
    value=st.none() | st.text(),
    nodes=NODES,
    in_sync=NODES,
)
SETTINGS = st.builds(
    Setting, key=st.text(), value=st.text(), scope=st.sampled_from(get_args(Scope)), of_scenario=st.booleans()
)


def stored(value: Any) -> Any:
    return json.loads(json.dumps(value))


@given(st.lists(LINKS, max_size=4))
def test_a_chain_comes_back_as_it_was_stored(chain: list[ChainLink]) -> None:
    assert chain_of(stored({"cause_chain": [link.as_dict() for link in chain]})) == chain


@given(LINKS)
def test_a_field_that_nobody_here_knows_is_left_out(link: ChainLink) -> None:
    assert chain_of(stored({"cause_chain": [{**link.as_dict(), "colour": "red"}]})) == [link]


def test_a_link_from_before_there_were_facts_says_less() -> None:
    before = {"t_ns": 1, "event": "election", "sentence": "Broker 2 was elected uncleanly."}
    (link,) = chain_of({"cause_chain": [before]})
    assert (link.unclean, link.count, link.isr_after, link.nodes) == (None, None, None, ())
    assert not chain_of({})
    assert not remedies_of({})


@given(st.lists(REMEDIES, max_size=3))
def test_remedies_come_back(remedies: list[Remedy]) -> None:
    assert remedies_of(stored({"remedies": [one.as_dict() for one in remedies]})) == remedies


@given(SETTINGS)
def test_settings_come_back(setting: Setting) -> None:
    assert setting_of(stored(setting.as_dict())) == setting
    assert setting_of(None) is None
