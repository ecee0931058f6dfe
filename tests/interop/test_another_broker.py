"""A broker that is no Kafka, run as a cluster that somebody else runs: kfake, franz-go's own, built from its module.

Killed after a clean stop it goes on with what that stop had written of its producers: it refuses every batch of those
that are still there, and takes those of new ones. That is no loss and no pass, and what it answered is named. Stopped
in order it keeps all, and passes.

Nothing may be skipped in CI: with KAFKA_CHAOS_CLIENTS_HERE set, this is left out without Go, and .ci/run says so."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import OutOfOrderSequenceNumberError

from tests.end_to_end.shell import Shell
from tests.interop import somebodys_kfake
from tests.interop.clients.table import LEAVE_OUT, NotReady, go_lacking, go_program
from tests.interop.somebodys_kfake import act
from tests.loopback import free_port

OUT_OF_ORDER_SEQUENCE_NUMBER = 45
SCENARIO = """
[[topics]]
name = "orders"
replication_factor = 1
[workload]
duration = "{duration_s} s"
client = "confluent-kafka"
replace_client = false
[[faults]]
kind = "stop"
target = "leader(orders/0)"
at = "2 s"
for = "1 s"
"""
KILLED = """
[[faults]]
kind = "kill"
target = "leader(orders/0)"
at = "7 s"
for = "1 s"
"""
pytestmark = [
    pytest.mark.further,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(go_lacking()), reason=go_lacking()),
]


@dataclass(frozen=True, kw_only=True)
class Ended:
    code: int
    said: str
    verdict: str
    findings: list[dict[str, object]]


@pytest.fixture
def kfake(tmp_path: Path) -> Iterator[tuple[Shell, str]]:
    """Where it runs, and its address; the means to harm it are in the file mine.toml."""
    try:
        program = go_program(Path(somebodys_kfake.__file__).parent / "kfake")
    except NotReady as error:
        pytest.skip(str(error))
    port = str(free_port("127.0.0.1"))
    does = f"{sys.executable} -m {somebodys_kfake.__name__} {program} {tmp_path} {port}"
    lines = [f'{each} = "cd {Path.cwd()} && {does} {each}"' for each in ("kill", "start", "stop")]
    (tmp_path / "mine.toml").write_text("\n".join(["[attached]", *lines]) + "\n")
    act(program, tmp_path, port, "start")
    yield Shell(directory=tmp_path.resolve()), f"127.0.0.1:{port}"
    act(program, tmp_path, port, "kill")


def _run(kfake: tuple[Shell, str], scenario: str) -> Ended:
    shell, bootstrap = kfake
    (shell.directory / "kfake.toml").write_text(scenario)
    ended = shell.run("run", "kfake.toml", "--bootstrap", bootstrap, "--attached", "mine.toml", timeout_s=500)
    verdict = json.loads((shell.folder / "verdict.json").read_text(encoding="utf-8"))
    findings = pq.read_table(shell.folder / "tables" / "findings.parquet").to_pylist()
    return Ended(code=ended.returncode, said=ended.stdout, verdict=verdict["verdict"], findings=findings)


if not (LEAVE_OUT and go_lacking()):

    def test_a_broker_that_refuses_its_old_producers_for_ever_does_not_pass(kfake: tuple[Shell, str]) -> None:
        ended = _run(kfake, SCENARIO.format(duration_s=12) + KILLED)
        assert (ended.code, ended.verdict) == (3, "inconclusive"), ended.said
        assert "violation" not in {each["classification"] for each in ended.findings}, ended.said
        evidence = {each["check"]: json.loads(str(each["evidence"])) for each in ended.findings}
        assert evidence["no-progress"]["errors"] == ["_FATAL"], ended.said
        assert [each["code"] for each in evidence["client-stuck"]["answered"]] == [OUT_OF_ORDER_SEQUENCE_NUMBER], (
            ended.said
        )

    def test_a_broker_that_is_stopped_in_order_passes(kfake: tuple[Shell, str]) -> None:
        ended = _run(kfake, SCENARIO.format(duration_s=6))
        assert (ended.code, ended.verdict) == (0, "pass"), ended.said

    def test_by_hand_it_refuses_what_follows_on_what_it_acknowledged(kfake: tuple[Shell, str]) -> None:
        """The proof of docs/track_record.md's row: none of kafka-chaos's own clients, one record at a time."""
        shell, bootstrap = kfake
        program, port = go_program(Path(somebodys_kfake.__file__).parent / "kfake"), bootstrap.rpartition(":")[2]
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        admin.create_topics([NewTopic("by-hand", 1, 1)])
        admin.close()
        old = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        offsets = []
        for harm in ("stop", "kill"):
            offsets += [old.send("by-hand", b"value", partition=0).get(timeout=60).offset for _ in range(10)]
            act(program, shell.directory, port, harm)
            act(program, shell.directory, port, "start")
        assert offsets == list(range(20))
        with pytest.raises(OutOfOrderSequenceNumberError):
            old.send("by-hand", b"value", partition=0).get(timeout=60)
        new = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
        assert new.send("by-hand", b"value", partition=0).get(timeout=60).offset == len(offsets)
        new.close()
        old.close()
