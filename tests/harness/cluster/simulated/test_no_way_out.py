"""Whatever would leave the simulated world fails with its place."""

import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable

import pytest

from harness.cluster.simulated.beginning import BEGINS_NS, BEGINS_WALL_NS, Beginning
from harness.cluster.simulated.no_way_out import Escape, NoWayOut


def guard(seed: int = 1) -> NoWayOut:
    return NoWayOut(clock=Beginning(), chance=random.Random(seed))


WAYS: dict[str, Callable[[], object]] = {
    "the wall clock": lambda: -time.time(),
    "the monotonic clock": lambda: -time.monotonic_ns(),
    "a sleep": lambda: time.sleep(0),
    "a thread": lambda: threading.Thread(target=print).start(),
    "a socket": lambda: socket.socket(socket.AF_INET),
    "a name": lambda: socket.getaddrinfo("localhost", 1),
    "a process": lambda: subprocess.Popen([sys.executable, "-c", ""]),
    "chance of the system's": lambda: os.urandom(4),
    "a secret": lambda: secrets.token_hex(4),
    "a name by chance": uuid.uuid4,
    "a generator of the system's": lambda: random.SystemRandom().random(),
    "a generator without a seed": random.Random,
    "no seed": lambda: random.seed(None),
}


@pytest.mark.parametrize("way", WAYS)
def test_it_fails_with_its_place_and_is_remembered_where_nobody_hears_it(way: str) -> None:
    with guard() as guarded, pytest.raises(Escape):
        WAYS[way]()
    assert len(guarded.escapes) == 1
    places = ("test_no_way_out.py", "subprocess.py", "socket.py", "uuid.py")
    assert any(place in guarded.escapes[0] for place in places), guarded.escapes


@pytest.mark.parametrize("way", WAYS)
def test_afterwards_all_is_as_it_was(way: str) -> None:
    with guard():
        pass
    answer = WAYS[way]()
    if isinstance(answer, subprocess.Popen):
        answer.wait()
    if isinstance(answer, socket.socket):
        answer.close()
    assert time.time() * 1e9 != BEGINS_WALL_NS


def test_a_library_that_knows_no_other_clock_is_answered_with_the_worlds_time() -> None:
    library = types.ModuleType("aiokafka.conn")
    exec("import time\ndef now(): return time.monotonic_ns(), time.time()", library.__dict__)

    with guard():
        assert library.now() == (BEGINS_NS, BEGINS_WALL_NS * 1e-9)


def test_pythons_own_chance_is_the_runs_and_the_processs_again_afterwards() -> None:
    random.seed(7)
    with guard(3):
        first = random.random()
    after = random.random()
    random.seed(7)
    with guard(3):
        assert random.random() == first
    assert random.random() == after


def test_other_threads_of_its_process_go_on_as_they_are() -> None:
    begin, done = threading.Event(), threading.Event()
    seen: list[float] = []

    def besides() -> None:
        begin.wait(30)
        time.sleep(0.001)
        seen.append(time.time())
        seen.append(random.Random().random())
        done.set()

    thread = threading.Thread(target=besides)
    thread.start()
    with guard() as guarded:
        begin.set()
        assert done.wait(30)
    thread.join()
    assert seen[0] * 1e9 != BEGINS_WALL_NS
    assert not guarded.escapes
