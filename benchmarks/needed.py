"""What a benchmark needs beside what a run does: named in one line before anything is measured, with exit code 4.

1 is a violation, here as everywhere.
"""

import importlib.util
import sys
from typing import NoReturn

CANNOT = 4
_BROUGHT_BY = {"confluent_kafka": "pip install 'kafka-chaos[clients]'", "duckdb": "pip install duckdb"}


def need(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            give_up(f"this benchmark needs {package}: {_BROUGHT_BY[package]}")


def give_up(why: str) -> NoReturn:
    print(f"{sys.argv[0]}: {why}", file=sys.stderr)
    sys.exit(CANNOT)
