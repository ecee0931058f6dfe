"""Who got nothing when asked after the last heal: a violation only where Kafka promises it, and never a plain pass."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from harness.checks.contract.rulings import Cause
from harness.checks.judge import Judgement
from harness.scenario.model import ClusterSpec
from harness.values import GroupProtocol
from harness.verdict import Verdict
from tests.harness.checks.histories.build import SECOND, History, judge_stories
from workloads.consumer_groups import ConsumerGroupsSettings

ISR = (1, 2, 3)
ASKED, UNTIL = 50.0, 81.0
OUT_OF_ORDER, TOO_LARGE, UNKNOWN_PRODUCER = 45, 10, 59
Story = Callable[[], History]


def _log(isr: tuple[int, ...] = ISR) -> History:
    """isr: from second 40 on."""
    history = History().state(1, 0, ISR, at=0, start=0)
    history.client(1, role="producer", acks=-1, idempotent=True)
    for value in range(3):
        history.send(value, value, at=1 + value)
    history.snapshot(1, [(value, 0, value) for value in range(3)], high_watermark=3, epochs="0:0")
    history.final([(value, value) for value in range(3)])
    if isr != ISR:
        history.state(1, 0, isr, at=40)
    return history


def _asked(history: History, age: str, what: str, outcome: str, *, until: float = UNTIL, **more: Any) -> History:
    client = "client-1" if (age, what) == ("old", "write") else None
    return history.progress(age, what, outcome, at=ASKED, until=until, **{"client": client} | more)


def recorded(age: str, what: str, outcome: str, *, isr: tuple[int, ...] = ISR, **more: Any) -> Story:
    return lambda: _asked(_log(isr), age, what, outcome, isr=list(isr), **more)


def _explained() -> History:
    """Retention removed the producer's last record, and a broker before 2.4 knows nothing of it any more."""
    history = _log()
    history.partition |= {"log_start_offset": 3, "end_offset": 3, "cleanup_policy": "delete"}
    history._add("configuration", time_ns=0, scope="topic", name="t", node=-1, key="retention.ms", value="1000")
    history.failed_attempt(at=60)
    history.rows["client_events"][-1] |= {"code": UNKNOWN_PRODUCER}
    return _asked(history, "old", "write", "unanswered")


def _stuck(code: int | None, *, fresh: str = "done", system: str = "reference") -> History:
    """An old producer gets nothing, and a fresh one does what `fresh` says."""
    history = _log()
    history.scenario = dataclasses.replace(history.scenario, cluster=ClusterSpec(system=system))
    _asked(history, "fresh", "write", fresh, until=50.1)
    return _asked(history, "old", "write", "unanswered" if code is None else "refused", code=code)


def _node_down() -> History:
    history = _log()
    history._add("node_ends", node=1, time_ns=40 * SECOND, exit_status=1, reason="fatal-fault", fresh=True)
    return _asked(history, "fresh", "membership", "unanswered", group="g")


def _crashing(*at: float, fresh: str = "done", protocol: GroupProtocol = "classic") -> History:
    """Members of the load's group crash at these times while they are asked, from 50 to 81; a session takes 6 s, or
    45 by the brokers' default."""
    history = _log()
    workload = ConsumerGroupsSettings(group="g", session_timeout_ms=6000, group_protocol=protocol)
    history.scenario = dataclasses.replace(history.scenario, workload=workload)
    for process, second in enumerate(at, start=20):
        history.client(process, role="consumer", group="g")
        history.crash(process, at=second)
    _asked(history, "fresh", "membership", fresh, until=UNTIL if fresh != "done" else 53, group="g")
    return _asked(history, "old", "membership", "unanswered", group="g")


def _another_node_down() -> History:
    """Broker 4 has no replica of the partition."""
    history = _log()
    history._add("node_ends", node=4, time_ns=40 * SECOND, exit_status=1, reason="fatal-fault", fresh=True)
    return _asked(history, "fresh", "write", "refused", code=OUT_OF_ORDER)


def _unhealed() -> History:
    history = _log().fault("pause", [2], at=10)
    return _asked(history, "fresh", "write", "unanswered", code=7)


def _polled() -> History:
    history = _log()
    for row in history.rows["partition_states"]:
        row |= {"exact": False, "observer": 1}
    return _asked(history, "fresh", "write", "refused", code=OUT_OF_ORDER)


def _min_isr() -> History:
    history = _log((1,))
    history._add("configuration", time_ns=0, scope="topic", name="t", node=-1, key="min.insync.replicas", value="2")
    return _asked(history, "fresh", "write", "refused", isr=[1], code=19)


STORIES: dict[str, Story] = {
    "all done": recorded("fresh", "write", "done", until=50.1, offset=3),
    "not asked": recorded("old", "read", "not_asked", reason="nothing_new"),
    "refused though whole": recorded("fresh", "write", "refused", code=OUT_OF_ORDER),
    "refused for a moment only": recorded("fresh", "write", "refused", code=OUT_OF_ORDER, until=51.0),
    "nobody answered": recorded("fresh", "write", "unanswered", error="KafkaTimeoutError"),
    "refused, states polled": _polled,
    "refused, another node down": _another_node_down,
    "refused, one out of sync": recorded("fresh", "write", "refused", isr=(1, 2), code=OUT_OF_ORDER),
    "refused by a rule": recorded("fresh", "write", "refused", code=TOO_LARGE),
    "no leader": recorded("fresh", "write", "unanswered", leader=-1),
    "too few in sync": _min_isr,
    "a fault is left": _unhealed,
    "old producer refused": recorded("old", "write", "refused", code=OUT_OF_ORDER),
    "old producer explained": _explained,
    "held by its library": lambda: _stuck(None),
    "refused for what it is": lambda: _stuck(OUT_OF_ORDER),
    "held by it or by others": lambda: _stuck(None, system="attached"),
    "group stands": recorded("old", "membership", "unanswered", group="g"),
    "group stands, node down": _node_down,
    "members kept crashing": lambda: _crashing(55, 58, 72, 80),
    "members crashed at first": lambda: _crashing(51, 53, 60),
    "a member crashed, brokers give it up late": lambda: _crashing(51, protocol="consumer"),
    "members crashed before": lambda: _crashing(30, 44),
    "a fresh one gets nothing either": lambda: _crashing(55, 58, 72, 80, fresh="unanswered"),
    "stable offset stands": recorded("fresh", "stable", "unanswered", offset=1),
}


def _of(judgement: Judgement) -> list[tuple[str, str, bool]]:
    return [
        (each.classification, each.kind, each.is_open) for _, each in judgement.findings if each.check == "no-progress"
    ]


def test_what_is_not_got_after_the_last_heal_has_the_class_that_the_contract_gives_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    judged = judge_stories(spark, tmp_path, STORIES)

    found = {name: (judgement.verdict, _of(judgement)) for name, judgement in judged.items()}
    violation, noted = Verdict.VIOLATION, Verdict.PASS
    undecided = Verdict.INCONCLUSIVE
    assert found == {
        "all done": (Verdict.PASS, []),
        "not asked": (Verdict.PASS, []),
        "refused though whole": (violation, [("violation", "fresh-write", False)]),
        "refused for a moment only": (undecided, [("observation", "fresh-write", True)]),
        "nobody answered": (undecided, [("observation", "fresh-write", True)]),
        "refused, states polled": (undecided, [("observation", "fresh-write", True)]),
        "refused, another node down": (violation, [("observation", "fresh-write", True)]),
        "refused, one out of sync": (undecided, [("observation", "fresh-write", True)]),
        "refused by a rule": (noted, [("observation", "fresh-write", False)]),
        "no leader": (noted, [("observation", "fresh-write", False)]),
        "too few in sync": (noted, [("observation", "fresh-write", False)]),
        "a fault is left": (noted, [("observation", "fresh-write", False)]),
        "old producer refused": (undecided, [("observation", "old-write", True)]),
        "old producer explained": (noted, [("observation", "old-write", False)]),
        "held by its library": (noted, [("observation", "old-write", False)]),
        "refused for what it is": (undecided, [("observation", "old-write", True)]),
        "held by it or by others": (undecided, [("observation", "old-write", True)]),
        "group stands": (undecided, [("observation", "old-membership", True)]),
        "group stands, node down": (found["group stands, node down"][0], [("observation", "fresh-membership", False)]),
        "members kept crashing": (noted, [("observation", "old-membership", False)]),
        "a member crashed, brokers give it up late": (noted, [("observation", "old-membership", False)]),
        "members crashed at first": (undecided, [("observation", "old-membership", True)]),
        "members crashed before": (undecided, [("observation", "old-membership", True)]),
        "a fresh one gets nothing either": (
            undecided,
            [("observation", "fresh-membership", True), ("observation", "old-membership", True)],
        ),
        "stable offset stands": (undecided, [("observation", "fresh-stable", True)]),
    }
    doubts = {
        name: each.cause.doubt.code
        for name, judgement in judged.items()
        for _, each in judgement.findings
        if each.check == "no-progress" and isinstance(each.cause, Cause) and each.cause.doubt is not None
    }
    assert {name: doubts[name] for name in doubts if name.startswith("refused, ") or name.endswith("only")} == {
        "refused for a moment only": "asked-for-a-moment",
        "refused, states polled": "polled-or-foreign",
        "refused, another node down": "another-node-had-ended",
        "refused, one out of sync": "not-all-in-sync",
    }
    for name, (_, those) in found.items():
        is_said = judged[name].verdict is violation or "After the last heal" in judged[name].sentence
        assert is_said or not those, name


def test_the_sentence_names_who_got_nothing_where_and_what_was_answered(spark: SparkSession, tmp_path: Path) -> None:
    named = ("old producer refused", "too few in sync", "group stands", "refused, another node down")
    wanted = {name: STORIES[name] for name in named}
    judged = judge_stories(spark, tmp_path, wanted)

    assert "client-1 got no write acknowledged in t-0, for 31.000 s; it was answered OUT_OF_ORDER_SEQUENCE_NUMBER" in (
        judged["old producer refused"].sentence
    )
    assert "a fresh client got no write acknowledged in t-0" in judged["too few in sync"].sentence
    assert "fewer were in sync than min.insync.replicas=2 demands" in judged["too few in sync"].sentence
    assert "the members of group g were not given t-0" in judged["group stands"].sentence
    recorded_of = [
        each.sentence for _, each in judged["refused, another node down"].findings if each.check == "no-progress"
    ]
    assert "broker 4, which neither leads it nor had to have the record, had ended" in recorded_of[0]
