"""What a process has freed it keeps, so that its next large array costs no pages."""

import subprocess
import sys

import pytest

_RESIDENT = """
import numpy as np
from harness.host.memory import keep_freed

def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 >> 20

kept = keep_freed() if {asked} else False
before = resident_mb()
large = np.ones(40 << 20, np.uint64)
del large
print(int(kept), resident_mb() - before)
"""


def _after_freeing(*, asked: bool) -> tuple[int, int]:
    script = _RESIDENT.format(asked=asked)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    kept, more_mb = map(int, ended.stdout.split())
    return kept, more_mb


def test_memory_that_was_freed_is_kept_where_the_c_library_can() -> None:
    kept, more_mb = _after_freeing(asked=True)
    if not kept:
        pytest.skip("the C library is not glibc")
    assert more_mb > 300
    assert _after_freeing(asked=False)[1] < 50
