"""The pins of Kafka's jars: a SHA-256 for every jar of every tried version, in the format of sha256sum.

A repository's own checksums come with the jars, so whoever can change one can change both. Pins come with this program.
Either all jars of a version are pinned, dependencies included, or none; `pinning.py` writes them.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from harness.cluster.brokers.kafka_versions import KafkaVersion
from harness.errors import HarnessError

FOLDER = Path(__file__).parent / "pinned"
_LINE = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<name>[\w.+-]+\.jar)")


def pins_file(version: KafkaVersion) -> Path:
    return FOLDER / f"{version.version}.sha256"


def pinned(version: KafkaVersion) -> Mapping[str, str]:
    """The SHA-256 of each jar by name; empty for an unpinned version."""
    path = pins_file(version)
    if not path.is_file():
        return {}
    found: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None or match["name"] in found:
            raise HarnessError(f"{path}, line {number} is no pin of a jar: install kafka-chaos anew")
        found[match["name"]] = match["sha256"]
    return found


def difference(pins: Mapping[str, str], found: Mapping[str, str]) -> str:
    """How jars differ from their pins (both: SHA-256 by name), or ""."""
    for name, sha256 in sorted(found.items()):
        if name not in pins:
            return f"{name} is not among the pinned jars"
        if sha256 != pins[name]:
            return f"{name} is not what was pinned (its SHA-256 is {sha256[:12]}..., the pin {pins[name][:12]}...)"
    return "".join(f"{name} is pinned and missing" for name in sorted(pins.keys() - found.keys())[:1])
