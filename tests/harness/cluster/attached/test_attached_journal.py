"""Faults that must be undone on an attached cluster survive the death of the harness."""

import uuid
from dataclasses import replace
from pathlib import Path

from harness.cluster.attached.journal import AttachedJournal, OwnTopic
from harness.ports.cluster import NodeId


def test_what_was_not_undone_is_owed_newest_first(tmp_path: Path) -> None:
    journal = AttachedJournal(tmp_path)
    journal.owe("start", "1")
    journal.owe("heal", "n2>n1 n3>n1")
    journal.owe("resume", "3")
    journal.paid("start", "1")

    assert AttachedJournal(tmp_path).owed() == [("resume", "3"), ("heal", "n2>n1 n3>n1")]


def test_a_harm_done_twice_is_undone_once(tmp_path: Path) -> None:
    journal = AttachedJournal(tmp_path)
    journal.owe("start", "1")
    journal.owe("start", "1")
    assert journal.owed() == [("start", "1")]
    journal.paid("start", "1")
    assert journal.owed() == []


def test_a_line_torn_by_a_kill_is_passed_over(tmp_path: Path) -> None:
    journal = AttachedJournal(tmp_path)
    journal.owe("start", "1")
    with journal.path.open("a", encoding="utf-8") as file:
        file.write('{"paid": "sta')
    assert AttachedJournal(tmp_path).owed() == [("start", "1")]


def test_what_was_learnt_is_there_for_the_next_command(tmp_path: Path) -> None:
    journal = AttachedJournal(tmp_path)
    orders = OwnTopic(name="orders", topic_id=uuid.uuid4(), mark="5")
    journal.found({NodeId(2): ("10.0.0.2", 9092)})
    journal.created(replace(orders, topic_id=uuid.uuid4()))
    journal.created(orders)
    journal.configured("orders", {"min.insync.replicas": "2"}, t_ns=5)
    journal.controller(2, t_ns=7, uncertainty_ns=1)

    again = AttachedJournal(tmp_path)
    assert again.addresses() == {2: ("10.0.0.2", 9092)}
    assert again.topics() == ["orders"]
    assert again.own_topic("orders") == orders, "the one that was made last"
    assert again.own_topic("payments") is None
    assert [(row.scope, row.name, row.key, row.value) for row in again.configuration()] == [
        ("topic", "orders", "min.insync.replicas", "2")
    ]
    assert [state.node for state in again.controllers()] == [2]
