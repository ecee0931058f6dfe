"""A finding can be handed on as the text of an issue, and no word of a run becomes markup in it."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.run.page import build
from reports.run.replay.issue import code, plain
from tests.reports.stories.unclean_story import loss_run
from tests.reports.test_replay import with_run


def issue_of(run: Path, finding: str = "F1") -> str:
    return next(one.issue for one in build(run).findings if one.id == finding)


def test_it_has_verdict_finding_chain_settings_replay_and_versions(tmp_path: Path) -> None:
    fields = {"kafka-chaos": {"commit": "abc" * 13 + "a", "state": "modified"}}
    run = with_run(loss_run(tmp_path), given={"scenario": "my file.toml", "overrides": []}, commits=fields)
    lines = issue_of(run).splitlines()
    assert lines[0] == (
        "## 37 acknowledged records of orders-0 were lost in an unclean election, and the configuration permits it."
    )
    text = "\n".join(lines)
    for part in (
        "**Verdict:** pass, exit code 0.",
        "**Finding F1:** lost-write (permitted), orders-0, offsets 260–296, count 37.",
        "5. 8.440 s: **Broker 2 is elected uncleanly, epoch 1 → 2** (decides it). ",
        "- applies: ",
        "`unclean.leader.election.enable=true`",
        "```sh\nkafka-chaos run 'my file.toml' --seed 7\nkafka-chaos run ",
        "- kafka-chaos: 0.1.0, commit abcabcabcabc, modified since",
        "- python: 3.11.9",
        "Fingerprint `lost-write-0f3a`",
    ):
        assert part in text, part


def test_every_finding_with_evidence_has_one_of_its_own(tmp_path: Path) -> None:
    run = loss_run(tmp_path)
    second = issue_of(run, "F2")
    assert second.startswith("## unclean-election (permitted), orders-0, offsets 260")
    assert "37 acknowledged records of orders-0 were lost" not in second.splitlines()[0]


HOSTILE = "</pre><script>x</script> ![i](https://e.x/i) [l](javascript:x) @somebody **b** `c` | d\n# e ~~f~~ &lt; #1"


def test_what_a_run_says_stays_text(tmp_path: Path) -> None:
    text = issue_of(loss_run(tmp_path, hostile=HOSTILE))
    fences = 0
    for line in text.splitlines():
        fences += line.startswith("```")
        assert not line.startswith(("# ", "> ", "|"))
        assert line.startswith("## ") == (line == text.splitlines()[0])
    assert fences == 2
    outside = re.sub(r"\\.", "", text.split("```")[0] + text.split("```")[2])
    outside = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", outside)
    for active in ("](", "<script", "@somebody", "https://", "~~f", "**b"):
        assert active not in outside, active


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b=c, 2→1 (ok)", "a.b=c, 2→1 (ok)"),
        ("min_insync", "min\\_insync"),
        ("two\nlines\tand tabs", "two lines and tabs"),
        ("@a https://b", "@<!-- -->a https<!-- -->://b"),
        ("\u202ex\x00", "\\\\u202ex\\\\u0000"),
    ],
)
def test_plain_text_is_shown_as_it_is(text: str, expected: str) -> None:
    assert plain(text) == expected


@given(st.text(max_size=60))
def test_a_code_span_ends_where_it_should(text: str) -> None:
    reported = code(text)
    fence = reported[: len(reported) - len(reported.lstrip("`"))]
    assert reported.endswith(fence)
    assert fence not in reported[len(fence) : -len(fence)].strip("`") or fence == ""
    assert "\n" not in reported
