"""Why a node ended is a typed fact, by the last seconds of its own log, in the words of each release.

For messages it is the line that says so, and not the last one.
"""

from pathlib import Path

import pytest

from harness.cluster.last_words import LastWords, last_lines, last_words, reason_in, words_of

RAFT = """\
2026-11-25 09:49:34,967 WARN [RaftManager id=1] Connection to node 100 could not be established. (o.a.k.NetworkClient)
2026-11-25 09:49:35,590 ERROR Encountered fatal fault: Unexpected error in raft IO thread \
(org.apache.kafka.server.fault.ProcessTerminatingFaultHandler)
org.apache.kafka.common.KafkaException: The leader requested truncation to offset 11, which is below the current high \
watermark LogOffsetMetadata(offset=56, metadata=Optional.empty)
\tat org.apache.kafka.raft.KafkaRaftClient.lambda$handleFetchResponse$0(KafkaRaftClient.java:1751)
\tat java.base/java.util.Optional.ifPresent(Unknown Source)
"""
FULL = """\
2026-11-25 09:52:09,992 ERROR Error while writing to checkpoint file /data/replication-offset-checkpoint \
(org.apache.kafka.storage.internals.log.LogDirFailureChannel)
java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
2026-11-25 09:52:10,011 ERROR Shutdown broker because all log dirs in /data have failed (kafka.log.LogManager)
"""
FAILED = """\
2026-11-25 09:52:09,992 ERROR Error while appending records to t-0 in dir /data (kafka.server.LogDirFailureChannel)
java.io.IOException: Input/output error
[2026-11-25 09:52:10,011] ERROR Shutdown broker because all log dirs in /data have failed (kafka.log.LogManager)
"""
OLD_FAILED = """\
[2026-11-25 09:52:10,011] FATAL [Replica Manager on Broker 1]: Halting due to unrecoverable I/O error while handling \
produce request:  (kafka.server.ReplicaManager)
kafka.common.KafkaStorageException: I/O exception in append to log 't-0'
\tat kafka.log.Log.append(Log.scala:349)
Caused by: java.io.IOException: No space left on device
"""
OLD_TRUNCATION = """\
[2026-11-25 09:52:10,011] FATAL [ReplicaFetcherThread-0-2], Exiting because log truncation is not allowed for \
partition t-0, Current leader 2's latest offset 3 is less than replica 1's latest offset 5 (kafka.server.ReplicaFetcher)
[2026-11-25 09:52:10,111] INFO [Kafka Server 1], shutting down (kafka.server.KafkaServer)
"""
OLDEST_TRUNCATION = OLD_TRUNCATION.replace("Exiting", "Halting").replace("partition t-0", "topic t")
UNREGISTERED = """\
2026-11-25 09:52:10,011 ERROR [BrokerLifecycleManager id=1] Shutting down because we were unable to register with the \
controller quorum. (kafka.server.BrokerLifecycleManager)
2026-11-25 09:52:10,411 ERROR [BrokerServer id=1] Fatal error during broker startup. Prepare to shutdown (kafka.server)
java.lang.RuntimeException: Received a fatal error while waiting for the controller to acknowledge that we are caught up
Caused by: java.util.concurrent.CancellationException
"""
OTHER_CLUSTER = """\
[2026-11-25 09:52:10,011] ERROR Fatal error during KafkaServer startup. Prepare to shutdown (kafka.server.KafkaServer)
kafka.common.InconsistentClusterIdException: The Cluster ID abc doesn't match stored clusterId Some(xyz) in meta.proper
"""
MEMORY = """\
2026-11-25 09:52:10,011 ERROR Uncaught exception in thread 'data-plane-kafka-request-handler-1' (o.a.k.c.u.KafkaThread)
java.lang.OutOfMemoryError: Java heap space
"""
REFERENCE_FULL = """\
2026-11-25T09:52:10.011 CRITICAL reference_impl.runtime.broker: broker 1 halts: its only log directory failed: [Errno \
28] No space left on device
"""
REFERENCE_ERROR = """\
2026-11-25T09:52:10.011 INFO reference_impl: broker 1 listens on INTERNAL
Traceback (most recent call last):
  File "broker.py", line 1, in main
    raise KeyError("t-0")
KeyError: 't-0'
"""


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (RAFT, "metadata-truncation-refused"),
        (FULL, "disk-full"),
        (FAILED, "log-directory-failed"),
        (OLD_FAILED, "disk-full"),
        (OLD_TRUNCATION, "truncation-refused"),
        (OLDEST_TRUNCATION, "truncation-refused"),
        (UNREGISTERED, "registration-failed"),
        (OTHER_CLUSTER, "other-cluster"),
        (MEMORY, "out-of-resources"),
        (REFERENCE_FULL, "disk-full"),
        (REFERENCE_ERROR, "exception"),
        ("2026-11-25 09:52:10,011 INFO bye (kafka.Kafka)\n", "none"),
        ("", "none"),
    ],
)
def test_each_way_to_end_is_told_from_the_others(log: str, reason: str) -> None:
    assert words_of(log).reason == reason


def test_the_line_has_what_was_said_and_the_innermost_exception() -> None:
    assert words_of(RAFT).line == (
        "Encountered fatal fault: Unexpected error in raft IO thread: org.apache.kafka.common.KafkaException: The "
        "leader requested truncation to offset 11, which is below the current high watermark "
        "LogOffsetMetadata(offset=56, metadata=Optional.empty)"
    )
    assert words_of(FULL).line == (
        "Error while writing to checkpoint file /data/replication-offset-checkpoint: java.io.IOException: No space "
        "left on device"
    )
    assert words_of(REFERENCE_ERROR).line == "KeyError: 't-0'"


def test_an_error_of_long_ago_is_its_last_error_and_no_reason() -> None:
    long_after = f"{FULL}2026-11-25 09:53:10,011 INFO Started (kafka.Kafka)\n"
    assert words_of(long_after) == LastWords(
        reason="none", line="Shutdown broker because all log dirs in /data have failed"
    )


def test_what_a_node_logged_in_an_earlier_life_is_no_word_of_this_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(FULL)
    since = log.stat().st_size
    with log.open("a") as file:
        file.write("2026-11-25 09:52:12,000 INFO Started (kafka.Kafka)\n")
    assert (last_words(log).reason, last_words(log, since=since).reason) == ("disk-full", "none")


def test_without_a_log_nothing_is_known(tmp_path: Path) -> None:
    assert last_words(tmp_path / "none") == LastWords(reason=None, line="")


# ---- the line for messages -------------------------------------------------------------------------------------------


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
