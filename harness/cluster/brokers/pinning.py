"""Pins a version of Kafka, for maintainers: `python -m harness.cluster.brokers.pinning VERSION...`.

The jars are downloaded into an empty cache over TLS, and Ivy checks each against the repository's checksum. A jar that
another version also has must be identical. Existing pins are never overwritten.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.cluster.brokers.kafka_jars import fetch, manifest_of
from harness.cluster.brokers.kafka_versions import KAFKA_VERSIONS, KafkaVersion, resolve_version
from harness.cluster.brokers.maven_access import access
from harness.cluster.brokers.pins import pinned, pins_file
from harness.errors import HarnessError, UsageError


def main(texts: Sequence[str]) -> int:
    """Pins the given versions; returns the exit code."""
    try:
        if not texts:
            raise UsageError("name the versions to pin, each a row of kafka_versions.py")
        for version in [resolve_version(text) for text in texts]:
            with tempfile.TemporaryDirectory(prefix="kafka-chaos-pinning-") as empty:
                os.environ["XDG_CACHE_HOME"] = empty
                sys.stdout.write(f"{pin(version)}\n")
    except HarnessError as error:
        sys.stderr.write(f"pinning: {error}\n")
        return 2 if isinstance(error, UsageError) else 4
    return 0


def pin(version: KafkaVersion) -> Path:
    """Writes the pins of a version downloaded into the cache, and returns the file. Raises UsageError and
    HarnessError."""
    path = pins_file(version)
    if path.exists():
        raise UsageError(f"Kafka {version} is pinned in {path}: remove it first, and say in the commit why it changes")
    with tempfile.TemporaryDirectory() as scratch:
        if access(Path(scratch)).is_plain:
            raise HarnessError("Maven's settings.xml names a mirror by plain http: pins are made over TLS alone")
    found = {jar.name: jar.sha256 for jar in manifest_of(fetch(version, progress=lambda line: None)).jars}
    for other in KAFKA_VERSIONS:
        for name, sha256 in pinned(other).items():
            if found.get(name, sha256) != sha256:
                raise HarnessError(f"{name} is not the one of {pins_file(other)}: find out which of the two is genuine")
    lines = [f"# The jars of Kafka {version} ({version.artifact}), in the format of sha256sum; see CONTRIBUTING.md."]
    lines += [f"{sha256}  {name}" for name, sha256 in sorted(found.items())]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
