"""The page of a run whose every name, value and sentence is hostile, as a real browser opens it from file://."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.browser import Pipe, browser, chromium
from harness.host.printable import visible
from reports.render import write_report
from tests.reports.stories.unclean_story import loss_run

pytestmark = pytest.mark.browser

OWN = "window.owned=(window.owned||0)+1"
HOSTILE = [
    f"<script>{OWN}</script>",
    f'"onload="{OWN}" x="',
    f"' onmouseover='{OWN}' '",
    f"</script><script>{OWN}</script>",
    f"<!--<script>{OWN}",
    f"javascript:{OWN}",
    f"<img src=x onerror={OWN}>",
    f"<svg/onload={OWN}>",
    f"\u2028{OWN}\u2029",
    "</style><style>*{display:none}</style>",
    "--></textarea></title></noscript>",
    "{{ page }}{% raw %}",
    '<a href="javascript:window.owned=9">a</a>',
    "<iframe src=https://example.invalid/frame>",
    "<link rel=stylesheet href=https://example.invalid/style>",
    "url(https://example.invalid/url)",
    "&lt;b&gt;&#60;",
    "\u202egnp.exe\u200f",
    "\x00NUL",
    "\x1b[31m",
    "]]>",
    "w" * 3_000,
]
EVERYTHING = " ".join(HOSTILE)
TOPIC = f"<b>{HOSTILE[0]}{HOSTILE[1]}\u202e"
ID = "\ud800<script>window.owned=7</script>"
_STRINGS = (
    "topic",
    "label_text",
    "proof_text",
    "healed_proof_text",
    "trigger_text",
    "reason_text",
    "detail_text",
    "error",
    "member",
    "note_text",
    "step_text",
    "seen_text",
    "name",
)
_LOOK = """(() => {
  const wide = document.documentElement.scrollWidth;
  for (const each of document.querySelectorAll("*"))
    for (const event of ["mouseover", "focus", "click", "load", "error", "toggle"])
      each.dispatchEvent(new Event(event, {bubbles: true, cancelable: true}));
  return JSON.stringify({
    owned: typeof window.owned, title: document.title, text: document.documentElement.textContent,
    shown: getComputedStyle(document.body).display, scripts: document.scripts.length,
    frames: window.frames.length, sources: document.querySelectorAll("[src], link, iframe, object, embed, base").length,
    links: [...document.links].map((link) => link.protocol),
    handlers: [...document.querySelectorAll("*")].flatMap((each) =>
      [...each.attributes].map((one) => one.name).filter((name) => name.startsWith("on"))),
    parts: {life: !!document.getElementById("life"), runs: !!document.querySelector(".runs a"),
      issues: document.querySelectorAll(".text pre").length > 1, holes: document.querySelectorAll(".problem").length},
    wide, window: document.documentElement.clientWidth,
  });
})()"""


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    program = chromium()
    if program is None:
        pytest.skip("no Chromium: apt-get install chromium, and the page is opened in it")
    with browser(program) as opened:
        yield opened


def hostile_run(runs: Path) -> Path:
    """Every text that a run may have of its own is hostile."""
    run = loss_run(runs, hostile=EVERYTHING)
    for path in (run / "tables").glob("*.parquet"):
        table = pq.read_table(path)
        rows = [_hostile(row) for row in table.to_pylist()]
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    names = pq.read_table(run / "tables" / "value_names.parquet")
    lost = pq.read_table(run / "tables" / "findings.parquet").to_pylist()[0]["values"]
    built_rows = [{"run": 0, "value": value, "name": HOSTILE[n % len(HOSTILE)]} for n, value in enumerate(lost)]
    pq.write_table(pa.Table.from_pylist(built_rows, schema=names.schema), run / "tables" / "value_names.parquet")
    scenario = (run / "scenario.toml").read_text(encoding="utf-8")
    (run / "scenario.toml").write_text(scenario.replace('"orders"', json.dumps(TOPIC)), encoding="utf-8")
    for name in ("run.json", "verdict.json"):
        content = json.loads((run / name).read_text(encoding="utf-8"))
        if name == "run.json":
            content |= {"id": ID, "versions": {EVERYTHING: EVERYTHING, "kafka-chaos": EVERYTHING}}
            content["given"] = {"scenario": EVERYTHING, "overrides": [EVERYTHING, f"cluster.system={EVERYTHING}"]}
            content["commits"] = {"scenario": {"commit": HOSTILE[0], "state": "modified"}}
        else:
            content |= {"reasons": [EVERYTHING, "\ud800"], "expected": EVERYTHING}
        (run / name).write_text(json.dumps(content), encoding="utf-8")
    beside = run.parent / f"later {HOSTILE[6]} {run.name}".replace("/", "\u2215")
    shutil.copytree(run, beside)
    built_rows = json.loads((run / "run.json").read_text(encoding="utf-8"))
    (beside / "run.json").write_text(json.dumps(built_rows | {"environment": {"system": EVERYTHING}}), encoding="utf-8")
    (beside / "report.html").write_text("a page", encoding="utf-8")
    return run


def _hostile(row: dict[str, Any]) -> dict[str, Any]:
    """The topic's name is the same everywhere, so that the story still hangs together."""
    changed = {name: TOPIC if name == "topic" else EVERYTHING for name in _STRINGS if row.get(name) is not None}
    if row.get("scope") == "topic":
        changed["name"] = TOPIC
    if row.get("evidence"):
        changed["evidence"] = json.dumps(_hostile_texts(json.loads(row["evidence"])))
    return row | changed


def _hostile_texts(value: Any) -> Any:
    if isinstance(value, dict):
        texts = ("sentence", "rule", "evidence", "prevention", "cause")
        return {
            key: EVERYTHING if key in texts and isinstance(each, str) else _hostile_texts(each)
            for key, each in value.items()
        }
    return [_hostile_texts(each) for each in value] if isinstance(value, list) else value


def test_nothing_that_a_run_says_runs_in_the_browser_and_all_of_it_is_shown(tmp_path: Path, pipe: Pipe) -> None:
    page = write_report(hostile_run(tmp_path))

    target = pipe.ask("Target.createTarget", url="about:blank")["targetId"]
    session = pipe.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Network", "Runtime", "Log"):
        pipe.ask(f"{domain}.enable", session)
    pipe.ask("Page.navigate", session, url=page.resolve().as_uri())
    pipe.wait("Page.loadEventFired")
    answer = pipe.ask("Runtime.evaluate", session, expression=_LOOK)
    seen = json.loads(answer["result"]["value"])

    assert seen["parts"] == {"life": True, "runs": True, "issues": True, "holes": 0}
    assert seen["owned"] == "undefined"
    assert (seen["scripts"], seen["frames"], seen["sources"], seen["handlers"]) == (1, 0, 0, [])
    assert set(seen["links"]) <= {"file:"}
    assert seen["shown"] == "block"
    assert pipe.events("Page.javascriptDialogOpening") == []
    assert pipe.events("Runtime.exceptionThrown") == []
    asked = {request["request"]["url"].partition("#")[0] for request in pipe.events("Network.requestWillBeSent")}
    assert asked == {page.resolve().as_uri()}
    text = " ".join(seen["text"].split())
    for hostile in (*HOSTILE[:-1], TOPIC, ID):
        assert " ".join(visible(hostile).split()) in text, hostile
    assert re.search("w{100}", text)
    assert not re.search("[\x00-\x08\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\ud800-\udfff]", text)


def test_very_long_words_do_not_widen_the_page(tmp_path: Path, pipe: Pipe) -> None:
    page = write_report(hostile_run(tmp_path))

    target = pipe.ask("Target.createTarget", url=page.resolve().as_uri())["targetId"]
    session = pipe.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    pipe.ask("Page.enable", session)
    pipe.ask("Page.navigate", session, url=page.resolve().as_uri())
    pipe.wait("Page.loadEventFired")
    seen = json.loads(pipe.ask("Runtime.evaluate", session, expression=_LOOK)["result"]["value"])

    assert seen["wide"] == seen["window"]
