"""Spark's own clusters (`--master spark://...`), reached from a JVM that we start like a local one.

PySpark's launcher would read spark-defaults.conf, and would not start on a Java that lacks the module it asks for. So
the driver is started directly here too, and what the cluster's owner wrote in that file is read here. Executors run on
the cluster's own Java; run folders must lie where they can read them.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

_LOOPBACK = "127.0.0.1"


def is_standalone(master: str) -> bool:
    return master.startswith("spark://")


def driver_address(master: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The driver's address: for a cluster, which must reach it, Spark or the user chooses; otherwise loopback only."""
    return {} if is_standalone(master) else {"SPARK_LOCAL_IP": environment.get("SPARK_LOCAL_IP", _LOOPBACK)}


def cluster_settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings of spark-defaults.conf in SPARK_CONF_DIR or SPARK_HOME; empty if there is none."""
    home = environment.get("SPARK_HOME")
    folder = environment.get("SPARK_CONF_DIR") or (home and os.path.join(home, "conf"))
    path = Path(folder or "") / "spark-defaults.conf"
    if not folder or not path.is_file():  # without either there is none: never a file of the current directory
        return {}
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    pairs = (re.split(r"[\s=:]+", line, maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def staging_parent(master: str, run_tables: Path) -> Path | None:
    """The folder of files for executors: beside the runs, which they can read; None locally: the system's default."""
    return None if master.startswith("local[") or master == "local" else run_tables
