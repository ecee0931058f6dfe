"""Everybody on this machine reaches the ports of the checks' JVM; nobody is listened to there but the checks."""

import socket
import struct
import threading
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from harness.checks.spark.session import spark_settings

AT_MOST_S = 30.0
RPC_REQUEST, RPC_RESPONSE, RPC_FAILURE = 3, 4, 5  # Spark's network messages
LARGER_THAN_A_DIRECT_RESULT = 200_000  # rows: their results are blocks, fetched through the block manager's port


def refusal(port: int, body: bytes) -> bytes:
    """Asks as a stranger would, without a word of who he is; what the answer says beside that it is a refusal."""
    head = struct.pack(">bqi", RPC_REQUEST, 7, len(body))
    with socket.create_connection(("127.0.0.1", port), timeout=AT_MOST_S) as connection:
        connection.sendall(struct.pack(">q", 8 + len(head) + len(body)) + head + body)
        with connection.makefile("rb") as answers:
            (length,) = struct.unpack(">q", answers.read(8))
            answer = answers.read(length - 8)
    assert answer[0] == RPC_FAILURE, f"answered: {answer[:500]!r}"
    return answer


def to_endpoint(port: int, name: str, content: bytes) -> bytes:
    """A message of Spark's RpcEnv: no sender's address, then the receiver's, then the serialized content."""
    host, endpoint = b"127.0.0.1", name.encode()
    address = struct.pack(f">?H{len(host)}si", True, len(host), host, port)
    return b"\0" + address + struct.pack(f">H{len(endpoint)}s", len(endpoint), endpoint) + content


def serialized(jvm: Any, value: Any) -> bytes:
    buffer = jvm.java.io.ByteArrayOutputStream()
    out = jvm.java.io.ObjectOutputStream(buffer)
    out.writeObject(value)
    out.flush()
    return bytes(buffer.toByteArray())


def answer_of(session: SparkSession) -> list[int]:
    """Of a question asked now; a session without an executor never gives one."""
    found: list[int] = []
    concurrent_queries = threading.Thread(
        target=lambda: found.append(len(session.range(LARGER_THAN_A_DIRECT_RESULT).collect())), daemon=True
    )
    concurrent_queries.start()
    concurrent_queries.join(AT_MOST_S)
    return found


def test_a_stranger_does_not_stop_the_executor_of_a_check(spark: SparkSession) -> None:
    port = int(spark.sparkContext.getConf().get("spark.driver.port", "0") or 0)
    jvm: Any = spark._jvm
    stop = getattr(getattr(jvm.org.apache.spark.scheduler.local, "StopExecutor$"), "MODULE$")

    for content in (serialized(jvm, "who is there?"), serialized(jvm, stop)):
        assert b"Expected SaslMessage" in refusal(port, to_endpoint(port, "LocalSchedulerBackendEndpoint", content))

    assert answer_of(spark) == [LARGER_THAN_A_DIRECT_RESULT]


def test_a_stranger_gets_nothing_from_the_block_manager(spark: SparkSession) -> None:
    context: Any = spark.sparkContext
    address = context._jsc.sc().getExecutorMemoryStatus().keys().head()
    port = int(address.rpartition(":")[2])

    assert b"Expected SaslMessage" in refusal(port, b"\x00")

    assert answer_of(spark) == [LARGER_THAN_A_DIRECT_RESULT]


def test_a_stranger_gives_no_command_at_pysparks_gateway(spark: SparkSession) -> None:
    gateway: Any = SparkContext._gateway
    port = gateway.gateway_parameters.port
    with socket.create_connection(("127.0.0.1", port), timeout=AT_MOST_S) as connection:
        connection.sendall(b"c\nz:java.lang.System\ncurrentTimeMillis\ne\n")
        with connection.makefile("rb") as answers:
            said = answers.readline()

    assert b"Authentication error" in said
    assert answer_of(spark) == [LARGER_THAN_A_DIRECT_RESULT]


def test_the_session_shows_no_secret_and_no_page(spark: SparkSession) -> None:
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.authenticate"] == "true"
    assert not [key for key in settings if "secret" in key]
    assert spark.sparkContext.uiWebUrl is None


@pytest.mark.parametrize("lines", ["", "spark.authenticate true\nspark.authenticate.secret theirs\n"])
def test_a_cluster_keeps_its_owners_authentication(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, lines: str) -> None:
    (tmp_path / "spark-defaults.conf").write_text(lines)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    settings = spark_settings(master="spark://far:7077", scratch=None)
    assert settings.get("spark.authenticate") == ("true" if lines else None)
    assert settings.get("spark.authenticate.secret") == ("theirs" if lines else None)
