"""A process may step back and come forward again whoever runs it: an ordinary user cannot undo being nice."""

import contextlib
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from harness.checks.spark import priority
from harness.checks.spark.priority import Place

NOBODY = 65534
THREADED = """
import threading, sys
threading.Thread(target=sys.stdin.read).start()
print("ready", flush=True)
"""


@contextlib.contextmanager
def a_session_of_its_own(*command: str, **owner: Any) -> Iterator[int]:
    """As a JVM is started; by itself a process with two threads."""
    started: Any = subprocess.Popen(
        command or [sys.executable, "-I", "-S", "-c", THREADED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        **owner,
    )
    with started as process:
        try:
            assert command or process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.stdin.close()


def places(pid: int) -> list[tuple[int, int]]:
    """(policy, niceness) of each thread."""
    threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    return [(os.sched_getscheduler(each), os.getpriority(os.PRIO_PROCESS, each)) for each in threads]


def session_niceness(pid: int) -> int:
    reported = Path(f"/proc/{pid}/autogroup")
    return int(reported.read_text().split()[-1]) if reported.exists() and reported.read_text() else 0


def seen(pid: int) -> list[tuple[list[tuple[int, int]], int]]:
    place, reported = Place(pid), []
    for move in (place.last, place.as_any_other):
        move()
        reported.append((places(pid), session_niceness(pid)))
    return reported


def in_the_name_of_nobody(answer: Connection, pid: int) -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    answer.send(seen(pid))


@pytest.mark.skipif(os.getuid() != 0, reason="only root may start something as somebody else")
def test_an_ordinary_user_gets_the_place_back() -> None:
    fork = multiprocessing.get_context("fork")  # with what it has read: the other user may not read our files
    mine, theirs = fork.Pipe(duplex=False)
    with a_session_of_its_own("/bin/cat", user=NOBODY, group=NOBODY) as pid:
        before = places(pid)
        child = fork.Process(target=in_the_name_of_nobody, args=(theirs, pid))
        child.start()
        back, again = mine.recv()
        child.join()

    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert before == [(os.SCHED_OTHER, own)]
    assert back[0] == [(os.SCHED_BATCH, own)]
    assert again == (before, 0)
    if Path("/proc/self/autogroup").exists():
        assert back[1] == 10


def test_this_user_gets_the_place_back() -> None:
    with a_session_of_its_own() as pid:
        before = places(pid), session_niceness(pid)
        back, again = seen(pid)

    assert back != before
    assert again == before


@pytest.mark.skipif(os.getuid() != 0, reason="only who may take it back is made nice")
def test_whoever_may_take_it_back_is_nice_with_every_thread() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with a_session_of_its_own() as pid:
        back, again = seen(pid)

    assert back[0] == [(os.SCHED_OTHER, max(10, own))] * 2
    assert again[0] == [(os.SCHED_OTHER, own)] * 2


def test_every_thread_of_it_gives_up_preempting_and_may_take_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "_may_be_raised_to", lambda _: False)
    with a_session_of_its_own() as pid:
        before = places(pid)
        back, again = seen(pid)

    assert [policy for policy, _ in back[0]] == [os.SCHED_BATCH] * 2
    assert again[0] == before


def test_a_process_that_is_gone_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_session_of_its_own() as pid:
        pass
    for may in (True, False):
        monkeypatch.setattr(priority, "_may_be_raised_to", lambda _, may=may: may)
        assert seen_of_nobody(pid)


def seen_of_nobody(pid: int) -> bool:
    place = Place(pid)
    place.last()
    place.as_any_other()
    return not Path(f"/proc/{pid}").exists()
