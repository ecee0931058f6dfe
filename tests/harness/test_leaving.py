"""A process of the command ends with its own exit code, whatever native libraries do when they are unloaded."""

import subprocess
import sys

import pytest

SCRIPT = """
import atexit, ctypes, os, sys, threading
from harness import __main__

stop = threading.Event()
atexit.register(lambda: print("at exit"))
native = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(lambda code, argument: os.abort())
ctypes.CDLL(None).on_exit(native, None)  # as a destructor of a C++ library that aborts
threading.Thread(target=lambda: (stop.wait(), print("a thread has ended"))).start()
threading.Timer(0.05, stop.set).start()
__main__.main = lambda: (print("done"), sys.exit({code}))
__main__.command()
"""


@pytest.mark.parametrize(("code", "expected"), [("3", 3), ("0", 0), ("None", 0), ("'why'", 4)])
def test_what_is_said_and_registered_is_done_and_the_exit_code_is_its_own(code: str, expected: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(code=code)], check=False, capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (expected, "done\na thread has ended\nat exit\n", "")


INTERRUPTED = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
sys.argv = ["kafka-chaos", "list"]
from harness import __main__
__main__.command()
"""


@pytest.mark.parametrize(("module", "code"), [("harness.checks.spark.jvm", -2), ("harness.cli.main", 130)])
def test_who_interrupts_a_command_while_it_is_read_gets_no_traceback(module: str, code: int) -> None:
    """-2: ended by the signal, which a shell tells as 130."""
    script = INTERRUPTED.format(module=module)
    ended = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "")
