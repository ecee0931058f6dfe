"""Why a node ended is read from its own log: the line that says so, and not the last one."""

from pathlib import Path

import pytest

from harness.cluster.last_lines import last_lines, reason_in

KAFKA = """[2026-01-01 10:00:00,000] INFO Starting controller (kafka.server.ControllerServer)
Exception in thread "main" org.apache.kafka.common.config.ConfigException: Invalid value 32768 for configuration \
log.segment.bytes: Value must be at least 1048576
\tat org.apache.kafka.common.config.ConfigDef$Range.ensureValid(ConfigDef.java:1)
\tat kafka.Kafka.main(Kafka.scala)
"""
WRAPPED = """[2026-01-01 10:00:00,000] ERROR Fatal error during startup (kafka.server.KafkaServer)
java.lang.RuntimeException: it failed
\tat kafka.server.KafkaServer.startup(KafkaServer.scala:1)
Caused by: java.io.IOException: No space left on device
\t... 3 more
[2026-01-01 10:00:01,000] INFO shutting down (kafka.server.KafkaServer)
"""
PYTHON = """INFO broker 1 starts
Traceback (most recent call last):
  File "broker.py", line 1, in main
OSError: [Errno 98] address in use
"""


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (
            KAFKA,
            "org.apache.kafka.common.config.ConfigException: Invalid value 32768 for configuration "
            "log.segment.bytes: Value must be at least 1048576",
        ),
        (WRAPPED, "java.io.IOException: No space left on device"),
        (PYTHON, "OSError: [Errno 98] address in use"),
        ("[x] ERROR no such flaw\n[x] INFO bye\n", "[x] ERROR no such flaw"),
        ("starting\nflags: unknown option --x\n\n", "flags: unknown option --x"),
        ("", ""),
    ],
)
def test_the_line_that_says_why(tmp_path: Path, log: str, reason: str) -> None:
    (tmp_path / "log").write_text(log, encoding="utf-8")
    assert reason_in(tmp_path / "log") == reason


def test_no_log_says_nothing(tmp_path: Path) -> None:
    assert (reason_in(tmp_path / "none"), last_lines(tmp_path / "none")) == ("", [])
