"""A secured Kafka that somebody else runs: every library gets in by every means, a broker is stopped and started by the
user's commands, and the run is judged as any other. No secret is ever where somebody else could read it.
"""

import asyncio
import contextlib
import os
import shlex
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.clients.catalogue import CLIENTS, clients_for
from harness.cluster.attached.authorizations import Wanted, lacking
from harness.cluster.broker_requests import connections
from harness.errors import Problems
from harness.ports.clients import ClientUse
from harness.ports.cluster import Send, TopicDefinition, TopicPartition
from harness.ports.load import WorkloadSpec
from harness.ports.programs import SendsByItself
from harness.ports.security import SecuritySpec
from harness.preflight.java_clients import java_tools
from harness.preflight.looking import ready
from tests.end_to_end.shell import Shell, read_json
from tests.interop import secured_kafka
from tests.interop.kafka_tools import kafka_home
from tests.interop.secured_kafka import NOBODY, NODES, USER, SecuredKafka, token
from tests.waiting import until

_LOOKS = 40  # at a process: a new one may not be yet what it is to be
HOME = kafka_home("4.3.1")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SCENARIO = """
[[topics]]
name = "orders"
settings = { "min.insync.replicas" = 2 }
[workload]
duration = "25 s"
%s
[[faults]]
kind = "stop"
target = "leader(orders/0)"
at = "3 s"
for = "1 s"
"""
TRANSACTIONS = """
name = "transactions"
output = "shipments"
group = "packers"
processors = 1
consumers = 1
[[topics]]
name = "shipments"
settings = { "min.insync.replicas" = 2 }
"""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    made = SecuredKafka(folder=tmp_path_factory.mktemp("kafka"), home=HOME)
    made.prepare()
    try:
        for node in NODES:
            made.start(node)
        made.wait_until_up()
        made.grant(USER)
        yield made
    finally:
        for node in NODES:
            made.kill(node)


@pytest.fixture(scope="module")
def kept(kafka: SecuredKafka) -> Path:
    """Where the user has his secrets."""
    folder = kafka.folder / "kept"
    folder.mkdir(mode=0o700)
    (folder / "password").write_text(f"{kafka.password}\n")
    (folder / "token").write_text(f"{token(USER, lasts_s=3600)}\n")
    (folder / "token-of-nobody").write_text(f"{token(NOBODY, lasts_s=3600)}\n")
    return folder


@pytest.fixture
def means(kafka: SecuredKafka, kept: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, tuple[str, SecuritySpec]]:
    """Of getting in: the listener, and what it wants."""
    monkeypatch.setenv("CHAOS_PASSWORD", kafka.password)
    trusting = SecuritySpec(ca_file=str(kafka.certificates.path("ca.crt")))
    user = replace(trusting, user=USER)
    return {
        "SCRAM-SHA-256": ("SECURED", replace(user, sasl="SCRAM-SHA-256", password_env="CHAOS_PASSWORD")),
        "SCRAM-SHA-512": ("SECURED", replace(user, sasl="SCRAM-SHA-512", password_file=str(kept / "password"))),
        "PLAIN": ("SECURED", replace(user, sasl="PLAIN", password_env="CHAOS_PASSWORD")),
        "PLAIN without TLS": (
            "CLEAR",
            SecuritySpec(tls=False, sasl="PLAIN", user=USER, password_env="CHAOS_PASSWORD"),
        ),
        "OAUTHBEARER": ("SECURED", replace(trusting, sasl="OAUTHBEARER", token_command=f"cat {kept / 'token'}")),
        "a certificate": ("MUTUAL", replace(trusting, certificate_file=str(kafka.certificates.path(f"{USER}.pem")))),
        "another name": (
            "ELSEWHERE",
            replace(user, sasl="PLAIN", password_env="CHAOS_PASSWORD", verify_host_name=False),
        ),
    }


MEANS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "PLAIN without TLS", "OAUTHBEARER", "a certificate", "another name")


@pytest.fixture(scope="module")
def topic(kafka: SecuredKafka) -> str:
    kafka.make_topic("greetings")
    return "greetings"


@pytest.mark.parametrize("library", CLIENTS)
@pytest.mark.parametrize("by", MEANS)
async def test_every_library_writes_and_reads_by_every_means(
    kafka: SecuredKafka, means: Mapping[str, tuple[str, SecuritySpec]], topic: str, library: str, by: str
) -> None:
    listener, security = means[by]
    settings = WorkloadSpec(client=library, request_timeout_ms=10_000, delivery_timeout_ms=30_000)
    client = clients_for((), security)[library](bootstrap=kafka.bootstrap(listener), settings=settings)
    value = f"{library} by {by}".encode()
    try:
        [outcome] = await client.send([Send(topic=topic, partition=0, value=value)])
        assert outcome.status == "ok", outcome
        await client.assign([TopicPartition(topic=topic, partition=0)], from_beginning=True)
        read: list[bytes] = []
        async with asyncio.timeout(60):
            while value not in read:
                read += [record.value for record in await client.poll(100, timeout_s=1)]
    finally:
        await client.close()


@pytest.mark.parametrize("by", [means for means in MEANS if means != "OAUTHBEARER"])
async def test_java_s_producer_gets_in_and_its_arguments_have_no_secret(
    kafka: SecuredKafka, means: Mapping[str, tuple[str, SecuritySpec]], topic: str, by: str
) -> None:
    listener, security = means[by]
    settings = WorkloadSpec(client="java", request_timeout_ms=10_000, delivery_timeout_ms=30_000)
    makers = clients_for((), security, java=lambda: java_tools({}))
    made: object = makers["java"](
        bootstrap=kafka.bootstrap(listener), settings=settings, use=ClientUse(role="producer")
    )
    assert isinstance(made, SendsByItself)
    try:
        batches = [made.planned([TopicPartition(topic=topic, partition=0)], process=0, records=5)]
        running = made.run(batches, records_per_second=100, until=asyncio.Event())
        outcomes: list[str] = []
        async for _, told in running:
            arguments = [words for words in _arguments() if b"VerifiableProducer" in words]
            outcomes += [each.status for each in told]
    finally:
        await made.close()
    assert outcomes == ["ok"] * 5
    assert arguments
    assert not any(kafka.password.encode() in words for words in arguments)


def _arguments() -> list[bytes]:
    """Of every process that can be looked at."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            found.append(place.read_bytes())
    return found


# -- whole runs --------------------------------------------------------------------------------------------------------


class Watched:
    """A run, and what everybody on the machine could see of it meanwhile."""

    def __init__(self, shell: Shell, secrets: Mapping[str, str], *, in_environment: bool) -> None:
        self._shell = shell
        self._secrets = [secret.encode() for secret in secrets.values()]
        self._in_environment = in_environment
        self.seen: set[str] = set()
        self.workers: set[str] = set()
        self._looks: Counter[str] = Counter()

    def run(self, *arguments: str) -> int:
        with self._shell.start(*arguments) as process:
            try:
                until(lambda: self._is_over(process), "the run is over", timeout_s=600)
            finally:
                process.terminate()  # which heals
            return int(process.wait())

    def _is_over(self, process: "subprocess.Popen[bytes]") -> bool:
        self._look()
        return process.poll() is not None

    def _look(self) -> None:
        for folder in Path("/proc").glob("[0-9]*"):
            self._looks[folder.name] += 1
            if self._looks[folder.name] > _LOOKS:
                continue
            try:
                words, mode = (folder / "cmdline").read_bytes(), (folder / "environ").stat().st_mode
                environment = (folder / "environ").read_bytes()
            except OSError:
                continue  # it has ended
            if str(self._shell.directory).encode() not in environment:
                continue
            if b"\0worker\0" in words:
                self.workers.add(folder.name)
            shown = words + (b"" if self._in_environment else environment)
            if stat.S_IMODE(mode) & 0o077 or any(secret in shown for secret in self._secrets):
                self.seen.add(shlex.join(os.fsdecode(word) for word in words.split(b"\0")))

    def kept(self) -> list[str]:
        """The files of the run, and what it said, that have a secret."""
        files = [path for path in self._shell.directory.rglob("*") if path.is_file() and not path.is_symlink()]
        assert any(path.name == "report.html" for path in files), self._shell.output.read_text()
        return [str(path) for path in files if any(secret in path.read_bytes() for secret in self._secrets)]


def table_of(security: SecuritySpec, kafka: SecuredKafka) -> str:
    means = f"cd {Path.cwd()} && {sys.executable} -m {secured_kafka.__name__} {kafka.folder}"
    commands = "".join(f'{act} = "{means} {act} {{node}}"\n' for act in ("stop", "start"))
    given = {field: getattr(security, field) for field in security.__dataclass_fields__}
    words = {field: str(value).lower() if isinstance(value, bool) else f"'{value}'" for field, value in given.items()}
    lines = "".join(f"{field} = {words[field]}\n" for field, value in given.items() if value != "")
    return f"[attached]\ntimeout = '120 s'\ndelete_topics = true\n{commands}[attached.security]\n{lines}"


@pytest.mark.parametrize(
    ("library", "by", "workload"),
    [
        ("kafka-python", "SCRAM-SHA-512", TRANSACTIONS),
        pytest.param("confluent-kafka", "OAUTHBEARER", "", marks=pytest.mark.further),
        pytest.param("aiokafka", "PLAIN", "", marks=pytest.mark.further),
    ],
)
def test_a_run_on_a_secured_cluster_is_judged_and_leaves_no_secret_anywhere(
    fresh_shell: Shell,
    kafka: SecuredKafka,
    kept: Path,
    means: Mapping[str, tuple[str, SecuritySpec]],
    monkeypatch: pytest.MonkeyPatch,
    library: str,
    by: str,
    workload: str,
) -> None:
    listener, security = means[by]
    shell = fresh_shell
    if not security.password_env:
        monkeypatch.delenv("CHAOS_PASSWORD")
    (shell.directory / "mine.toml").write_text(SCENARIO % workload)
    (shell.directory / "staging.toml").write_text(table_of(security, kafka))
    secrets = {"password": kafka.password, "token": (kept / "token").read_text().strip()}
    watched = Watched(shell, secrets, in_environment=bool(security.password_env))
    code = watched.run(
        *("run", "mine.toml", "--bootstrap", kafka.bootstrap(listener), "--attached", "staging.toml"),
        *("--client", library),
    )
    said = shell.output.read_text()
    assert code == 0, said
    assert read_json(shell.folder / "verdict.json")["verdict"] == "pass", said
    assert len(watched.workers) > 1
    assert watched.seen == set()
    assert watched.kept() == []
    assert [each.name.split("-")[1] for each in sorted((shell.folder / "commands").iterdir())][:2] == ["stop", "start"]


# -- who is not let in -------------------------------------------------------------------------------------------------


def refused(kafka: SecuredKafka, listener: str, security: SecuritySpec | None, tmp_path: Path) -> list[str]:
    """The lines before a run; empty: there is nothing against it."""
    file = tmp_path / "mine.toml"
    file.write_text(
        f"[[topics]]\nname = 'orders'\n[cluster]\nsystem = 'attached'\nbootstrap = '{kafka.bootstrap(listener)}'\n"
        + (table_of(security, kafka) if security is not None else "")
    )
    try:
        ready(str(file))
    except Problems as problems:
        return [str(problem) for problem in problems.problems]
    return []


@pytest.mark.parametrize(
    ("by", "listener", "change", "said"),
    [
        ("PLAIN", "SECURED", {}, None),
        ("PLAIN", "SECURED", None, "the listener wants TLS and SASL; give sasl, one of"),
        ("PLAIN", "MUTUAL", None, "the listener wants TLS; give [attached.security]"),
        ("PLAIN", "CLEAR", None, "the listener wants SASL; give sasl, one of PLAIN, in [attached.security]"),
        ("PLAIN", "INTERNAL", {}, "the listener speaks no TLS; give tls = false"),
        ("a certificate", "SECURED", {}, "the listener wants SASL; give sasl, one of"),
        ("a certificate", "MUTUAL", {"certificate_file": ""}, "it wants a client's certificate; give certificate_file"),
        (
            "a certificate",
            "MUTUAL",
            {"certificate_file": "expired.pem"},
            "it refuses the client's certificate; give one",
        ),
        ("PLAIN", "SECURED", {"password_env": "CHAOS_OTHER"}, "it refuses the user, the password or the token; check"),
        ("SCRAM-SHA-256", "SECURED", {"user": "stranger"}, "it refuses the user, the password or the token; check"),
        ("OAUTHBEARER", "SECURED", {"token_command": "echo a.b.c"}, "it refuses the user, the password or the token"),
        (
            "SCRAM-SHA-256",
            "CLEAR",
            {"tls": False, "ca_file": ""},
            "does not take that mechanism; give sasl = one of PLAIN",
        ),
        ("PLAIN", "SECURED", {"ca_file": "../others/ca.crt"}, "of no authority that is trusted here; give"),
        (
            "PLAIN",
            "ELSEWHERE",
            {},
            "its certificate is for another name; use a name that is in it, or verify_host_name",
        ),
        ("PLAIN", "EXPIRED", {}, "its certificate has expired; have the broker's certificate renewed"),
        (
            "PLAIN",
            "SECURED",
            {"password_env": "CHAOS_UNSET"},
            "the environment variable CHAOS_UNSET is not set; export it",
        ),
    ],
)
def test_who_is_not_let_in_is_told_in_one_line_why_where_and_what_to_do(
    kafka: SecuredKafka,
    means: Mapping[str, tuple[str, SecuritySpec]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    by: str,
    listener: str,
    change: dict[str, object] | None,
    said: str | None,
) -> None:
    monkeypatch.setenv("CHAOS_OTHER", "another password")
    changes = {
        key: str(kafka.certificates.path(value))
        if key.endswith("_file") and isinstance(value, str) and value
        else value
        for key, value in (change or {}).items()
    }
    security = None if change is None else replace(means[by][1], **changes)  # type: ignore[arg-type]
    lines = refused(kafka, listener, security, tmp_path)
    assert len(lines) == (said is not None), lines
    for line in lines:
        assert str(said) in line
        assert line.startswith(f"{tmp_path / 'mine.toml'}:")
        assert kafka.password not in line


def test_each_authorization_that_lacks_is_named_before_the_run(
    kafka: SecuredKafka, means: Mapping[str, tuple[str, SecuritySpec]], kept: Path, tmp_path: Path
) -> None:
    nobody = replace(means["OAUTHBEARER"][1], token_command=f"cat {kept / 'token-of-nobody'}")
    lines = refused(kafka, "SECURED", nobody, tmp_path)
    lacked = [line.partition(" lacks ")[2].partition(";")[0] for line in lines]
    assert lacked == [
        "DescribeConfigs on Cluster",
        "Describe on Cluster",
        *(
            f"{operation} on Topic chaos-orders"
            for operation in ("Describe", "Create", "Write", "Read", "DescribeConfigs")
        ),
    ]


EVERYTHING = Wanted(
    topics=[TopicDefinition(name="letters", partitions=1, replication_factor=3)],
    group="readers",
    looked_up_group="kafka-chaos",
    transactional_ids=["writer-1"],
    idempotent=True,
    elects=True,
    configures=True,
)


async def test_whatever_a_run_may_need_is_asked_for_and_nothing_comes_of_asking(
    kafka: SecuredKafka, means: Mapping[str, tuple[str, SecuritySpec]], kept: Path
) -> None:
    before = kafka.topics()
    nobody = replace(means["OAUTHBEARER"][1], token_command=f"cat {kept / 'token-of-nobody'}")
    of_topic = ("Describe", "Create", "Write", "Read", "DescribeConfigs", "AlterConfigs")
    assert await lacked(kafka, nobody) == [
        *("DescribeConfigs on Cluster", "Describe on Cluster", "Alter on Cluster"),
        *(f"{operation} on Topic letters" for operation in of_topic),
        *("Describe on Group readers", "Read on Group readers", "Describe on Group kafka-chaos"),
        "Write on TransactionalId writer-1",
    ]
    # What README's user is granted, and the two that only steps need.
    assert await lacked(kafka, means["PLAIN"][1]) == ["Alter on Cluster", "AlterConfigs on Topic letters"]
    assert await lacked(kafka, None) == []  # of whoever may do everything
    assert kafka.topics() == before


async def lacked(kafka: SecuredKafka, security: SecuritySpec | None) -> list[str]:
    connection = connections(security)("127.0.0.1", kafka.port(1, "SECURED" if security is not None else "INTERNAL"))
    try:
        return [str(lack) for lack in await lacking(connection, EVERYTHING)]
    finally:
        connection.close()


def test_the_command_ends_as_other_wrong_inputs_do(
    fresh_shell: Shell, kafka: SecuredKafka, means: Mapping[str, tuple[str, SecuritySpec]]
) -> None:
    (fresh_shell.directory / "mine.toml").write_text(SCENARIO % "")
    ended = fresh_shell.run("run", "mine.toml", "--bootstrap", kafka.bootstrap())
    assert ended.returncode == 2
    [line] = [line for line in ended.stderr.splitlines() if "the listener wants TLS and SASL" in line]
    assert line.startswith("kafka-chaos: --bootstrap 127.0.0.1:")
    assert not fresh_shell.has_begun()


def test_conform_gets_in_by_the_same_table_and_says_in_one_line_what_it_lacks(
    fresh_shell: Shell, kafka: SecuredKafka, means: Mapping[str, tuple[str, SecuritySpec]]
) -> None:
    listener, security = means["SCRAM-SHA-512"]
    (fresh_shell.directory / "staging.toml").write_text(table_of(security, kafka))
    bootstrap = kafka.bootstrap(listener)
    asked = ("conform", bootstrap, "--row", "brokers-answer", "--row", "list-offsets", "--row", "group-join")

    ended = fresh_shell.run(*asked, "--attached", "staging.toml")
    assert ended.returncode == 0, ended
    assert "3 rows: 3 conforms" in ended.stdout
    left = ended.stderr.splitlines()  # this user may read, and not delete, the group of each address
    assert len(left) == len(bootstrap.split(","))
    assert all(line.endswith("is left: GROUP_AUTHORIZATION_FAILED (30)") for line in left)
    ended = fresh_shell.run(*asked)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"kafka-chaos: BOOTSTRAP {bootstrap}: ")
    assert "the listener wants TLS and SASL; give sasl, one of" in ended.stderr
