"""What a run was made with, as its run.json and its name say."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version

from harness import extensions


def versions() -> dict[str, str]:
    found = {"kafka-chaos": version("kafka-chaos"), "Python": platform.python_version()}
    found |= {name: version(name) for name in ("kafka-python", "pyspark")}
    found |= extensions.packages()
    return found | {"machine": f"{platform.system()} {platform.release()}, {os.cpu_count()} cores"}


def stamp(wall_ns: int) -> str:
    return datetime.fromtimestamp(wall_ns / 1e9, UTC).strftime("%Y%m%d-%H%M%S")
