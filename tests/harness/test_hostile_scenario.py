"""A scenario file is anybody's: whatever stands in it, it is a scenario or one line that says where it is none."""

from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from faults import catalogue
from harness.errors import HarnessError, UsageError
from harness.ports.faults import ACTS
from harness.scenario import file as scenario_file
from harness.scenario import keys as scenario_keys
from harness.scenario import steps as scenario_steps
from harness.scenario.written import written_out
from harness.values import keys_of
from workloads.produce_and_poll import ProduceAndPollSettings

DIGITS = "9" * 5_000
MINIMAL = '[[topics]]\nname = "t"\n'


def parse(text: str) -> Any:
    return scenario_file.parse(text, name="s", place="s.toml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = " + "[" * 20_000 + "]" * 20_000, "s.toml: nested more than 100 deep"),
        ("x = " + "[" * 200 + "]" * 200, "nested more than 100 deep"),
        ("x" + ".x" * 200 + " = 1", "nested more than 100 deep"),
        (f"[run]\nseed = {DIGITS}\n{MINIMAL}", "s.toml: not TOML that can be read"),
        (f"[run]\nseed = 99999999999999999999\n{MINIMAL}", "s.toml:2: seed: a whole number of 64 bits is needed"),
        (f"{MINIMAL}partitions = 4000000000\n", "s.toml:3: partitions: at most 10000 are possible"),
        (f"{MINIMAL}[workload]\nproducers = 4000000000\n", "s.toml:4: producers: at most 10000 are possible"),
        (f"{MINIMAL}[workload]\nduration = inf\n", "s.toml:4: duration: a duration is written"),
        (f'{MINIMAL}[workload]\nduration = "{DIGITS} s"\n', "s.toml:4: duration: a duration is at most"),
        (f"{MINIMAL}[workload]\nrate_per_second = nan\n", "s.toml:4: rate_per_second: a number is needed"),
        (f"{MINIMAL}[workload]\nrate_per_second = 1{'0' * 400}\n", "s.toml:4: rate_per_second: a number is needed"),
        (f'{MINIMAL}[[steps]]\nact = {{ produce = "r0..r9999999999" }}\n', "more than 100000 values in one step"),
        (f'{MINIMAL}[[steps]]\nact = {{ produce = "r0..r{DIGITS}" }}\n', "s.toml:3: "),
        ("on = [1]\n" + MINIMAL, "s.toml:1: [on] must be a table"),
        (f'{MINIMAL}[coverage]\nelections = "{DIGITS}"\n', "a coverage bound is a number"),
    ],
)
def test_numbers_and_depths_beyond_use_are_one_line_with_its_place(text: str, expected: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(text)

    assert expected in str(error.value)


def test_a_scenario_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes(b'# caf\xe9\n[[topics]]\nname = "t"\n')

    with pytest.raises(HarnessError, match=r"latin\.toml: byte 5 is no UTF-8"):
        scenario_file.load(str(path))


_LEAVES = st.one_of(
    st.text(max_size=5),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.dates(),
    st.sampled_from([10**400, -(10**30)]),
    st.sampled_from(["kafka >= 4", "r0..r9", "5 s", "all", "not kraft", ">= 3", "10 %", "pass", "any", "leader"]),
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
_KEYS: dict[str, dict[str, Any]] = {
    "run": scenario_keys.RUN,
    "cluster": scenario_keys.CLUSTER,
    "attached": scenario_keys.ATTACHED,
    "topics": scenario_keys.TOPIC,
    "workload": dict(keys_of(ProduceAndPollSettings)),
    "faults": scenario_keys.FAULT,
    "steps": dict.fromkeys(("act", "wait", "expect", "within", "on")),
    "expect": scenario_keys.EXPECT,
    "coverage": dict.fromkeys(("elections", "acks")),
    "on": {**scenario_keys.ON, "run": None, "workload": None},
}
_OPTIONS = {option for fault in catalogue.OURS for option in catalogue.options_of(fault)}
_STEPS = sorted({*ACTS, *scenario_steps.EXPECTATIONS, *catalogue.by_name(), *_OPTIONS, "for"})


def _section(name: str) -> st.SearchStrategy[Any]:
    values = _VALUES
    if name == "steps":
        values = st.dictionaries(st.sampled_from(_STEPS), _VALUES, min_size=1, max_size=3) | _VALUES
    table = st.dictionaries(st.sampled_from(sorted(_KEYS[name])), values, max_size=4)
    return st.one_of(table, st.lists(table, min_size=1, max_size=2), _VALUES)


@given(st.fixed_dictionaries({}, optional={name: _section(name) for name in _KEYS}), st.booleans())
def test_any_document_is_a_scenario_or_one_line_that_says_where_it_is_none(
    document: dict[str, Any], with_topic: bool
) -> None:
    document = {**document, "topics": [{"name": "t"}]} if with_topic else document
    refused = ""
    try:
        scenario = parse(tomli_w.dumps(document))
    except UsageError as error:
        refused = str(error)
    if refused:
        assert refused.startswith("s.toml:")
    else:
        assert parse(written_out(scenario)).cluster == scenario.cluster
        parts = [(spec, part) for spec in scenario.faults for part in ("planned", "trigger")]
        for spec, part in [*parts, *((step, "victims") for step in scenario.steps)]:
            try:
                getattr(spec, part)
            except UsageError as wrong:
                refused = str(wrong)
            assert "\n" not in refused
