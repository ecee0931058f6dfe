"""One lost record is followed from its sending to what stands in its place, and what nobody recorded is not drawn."""

from pathlib import Path
from typing import Any

import pytest

from harness.history.facts import values
from reports.model import Page
from reports.run.life.axis import LEFT, RIGHT, WIDTH, Axis
from reports.run.life.model import Life, LifeLane
from reports.run.page import build
from tests.reports.stories.judged_folder import FIRST_LOST, LOST, at, quiet_run
from tests.reports.stories.recorded import recorded
from tests.reports.stories.unclean_findings import lost_values
from tests.reports.stories.unclean_story import loss_run
from tests.reports.stories.zombie_story import zombie_run

SENT_AT, ACKNOWLEDGED_AT, CUT_AT = 7.509, 7.513, 13.6
PLACE = {"topic": "orders", "partition": 0, "partition_id": 0}
INSTEAD = values.number(0, 400 + FIRST_LOST)


def life_of(run: Path) -> Life:
    page = build(run)
    assert page.problems == []
    assert page.life is not None
    return page.life


def lane(life: Life, label: str) -> LifeLane:
    return next(one for one in life.lanes if one.label == label)


def drawn(one: LifeLane) -> list[tuple[str, str]]:
    """(what, where it is known from or ends) from left to right."""
    return [(dot.style, dot.title.partition(":")[0]) for dot in one.dots]


def snapshot(number: int, node: int, seconds: float, end: int, reason: str = "heal") -> dict[str, Any]:
    return PLACE | {
        "snapshot": number,
        "node": node,
        "time_ns": at(seconds),
        "reason": reason,
        "log_end_offset": end,
        "log_start_offset": 0,
    }


def held(number: int, node: int, value: int) -> dict[str, Any]:
    return PLACE | {"snapshot": number, "node": node, "offset": FIRST_LOST, "leader_epoch": 1, "value": value}


def test_what_clients_and_brokers_told_is_drawn_and_nothing_else(tmp_path: Path) -> None:
    life = life_of(loss_run(tmp_path))
    assert [one.label for one in life.lanes] == ["producer p1", "consumers", "broker 1", "broker 2", "broker 3"]
    assert drawn(lane(life, "producer p1")) == [("sent", "7.509 s"), ("told", "7.513 s")]
    assert (lane(life, "consumers").note, lane(life, "consumers").dots) == ("no read recorded", [])
    leader = lane(life, "broker 1")
    assert leader.note == "led in epoch 1"
    assert drawn(leader) == [("seen", "7.513 s"), ("cut", "13.600 s")]
    assert [bar.style for bar in leader.bars] == ["maybe", "holds"]
    assert [band.text for band in leader.bands] == ["dead"]
    assert drawn(lane(life, "broker 2")) == [("absent", "8.440 s")]
    nobody_looked = lane(life, "broker 3")
    assert (nobody_looked.note, nobody_looked.dots, nobody_looked.bars) == ("nothing recorded", [], [])


def test_the_numbers_are_those_of_the_causes_while_it_lived(tmp_path: Path) -> None:
    page = build(loss_run(tmp_path))
    assert page.life is not None
    assert page.story is not None
    events = {step.number: step.event for step in page.story.steps}
    assert [events[guide.number] == guide.title for guide in page.life.guides] == [True] * 5
    assert [guide.title for guide in page.life.guides if guide.decisive] == [
        "Broker 2 is elected uncleanly, epoch 1 → 2"
    ]


def test_disks_that_were_read_say_who_had_it_and_what_stands_there_now(tmp_path: Path) -> None:
    run, record = loss_run(tmp_path), lost_values()[0]
    recorded(
        run,
        "replica_snapshots",
        [
            snapshot(1, 1, 8.1, FIRST_LOST + LOST, "kill"),
            snapshot(2, 3, 8.3, 258),
            snapshot(3, 1, 16, 650, "end"),
            snapshot(4, 2, 16.1, 650, "end"),
            snapshot(5, 3, 16.2, 650, "end"),
            snapshot(6, 1, 13.6, 297, "truncation"),
        ],
    )
    recorded(
        run, "replica_log", [held(1, 1, record), held(6, 1, record), *(held(n + 2, n, INSTEAD) for n in (1, 2, 3))]
    )
    life = life_of(run)
    assert drawn(lane(life, "broker 1")) == [
        ("seen", "7.513 s"),
        ("seen", "8.100 s"),
        ("cut", "13.600 s"),
        ("other", "16.000 s"),
    ]
    assert [bar.style for bar in lane(life, "broker 1").bars] == ["maybe", "holds", "holds", "maybe"]
    assert drawn(lane(life, "broker 3")) == [("absent", "8.300 s"), ("other", "16.200 s")]
    assert [bar.style for bar in lane(life, "broker 3").bars] == ["maybe"]
    assert "its disk, read when it was killed" in [row.source for row in life.rows]


def test_who_read_it_when_it_became_readable_and_what_overwrote_it_are_reported(tmp_path: Path) -> None:
    run, record = loss_run(tmp_path), lost_values()[0]
    mark = {"event": "high_watermark_checkpoint", "topic": "orders", "partition": 0, "node": 1}
    recorded(
        run,
        "broker_events",
        [
            mark | {"time_ns": at(7.4), "to_offset": FIRST_LOST + 1},  # before it was sent: of another record
            mark | {"time_ns": at(7.6), "to_offset": FIRST_LOST},  # not above it
            mark | {"time_ns": at(7.7), "to_offset": FIRST_LOST + 4},
            mark | {"time_ns": at(9.0), "to_offset": FIRST_LOST + 9},  # after its leader was deposed
        ],
    )
    recorded(
        run,
        "evidence_operations",
        [
            {
                "finding": "F1",
                "kind": "poll",
                "operation": 7,
                "process": 3,
                "status": "ok",
                "value": record,
                "completed_ns": at(7.65),
            },
        ],
    )
    recorded(
        run,
        "records",
        [
            PLACE
            | {
                "kind": 0,
                "status": 0,
                "operation": 8,
                "process": 0,
                "position": 0,
                "offset": FIRST_LOST,
                "value": INSTEAD,
                "invoked_ns": at(9.1),
                "completed_ns": at(9.2),
                "acks": -1,
            },
        ],
    )
    life = life_of(run)
    assert [dot.label for dot in lane(life, "consumers").dots] == ["read by p3", "readable"]
    assert drawn(lane(life, "consumers")) == [("read", "7.650 s"), ("read", "7.700 s")]
    assert drawn(lane(life, "broker 2")) == [("absent", "8.440 s"), ("other", "9.200 s")]


def test_a_lost_disk_ends_what_it_held(tmp_path: Path) -> None:
    run = loss_run(tmp_path)
    recorded(run, "disk_events", [{"node": 1, "time_ns": at(9.0), "fault": 1, "extent": "disk"}])
    assert ("cut", "9.000 s") in drawn(lane(life_of(run), "broker 1"))


def test_a_zombies_record_stands_after_the_election_that_it_did_not_hear_of(tmp_path: Path) -> None:
    page = build(zombie_run(tmp_path))
    assert page.life is not None
    elected = next(guide for guide in page.life.guides if "elected" in guide.title)
    sent = next(dot for dot in page.life.lanes[0].dots if dot.style == "sent")
    assert elected.x < sent.x


def test_a_run_that_lost_nothing_follows_nothing(tmp_path: Path) -> None:
    page: Page = build(quiet_run(tmp_path))
    assert page.life is None


@pytest.mark.parametrize(
    "moments", [[1.0], [1.0, 1.0004], [0.0, 0.001, 0.002, 9.0], [n / 1000 for n in range(60)], [5.0, 5.3, 8.0, 99.0]]
)
def test_moments_keep_their_order_and_stay_in_the_picture(moments: list[float]) -> None:
    axis = Axis(moments)
    places = [axis.x(moment) for moment in sorted({round(moment, 3) for moment in moments})]
    assert places == sorted(set(places))
    assert places[0] >= LEFT
    assert places[-1] <= WIDTH - RIGHT + 0.1
    assert axis.x(-5) == places[0]
    assert axis.x(1e6) == places[-1]
