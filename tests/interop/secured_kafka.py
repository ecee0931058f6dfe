"""A secured Kafka that somebody else runs: three nodes with TLS, SASL and ACLs, whose certificates openssl makes.

`secured_kafka.py FOLDER start|stop NODE` is what its operator has at hand; it knows these nodes and no other process.
"""

import base64
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    KafkaAdminClient,
    NewTopic,
    ResourcePattern,
    ResourceType,
)
from kafka.errors import KafkaError

from harness.cluster.brokers.kafka_jars import KafkaHome
from tests.interop.kafka_tools import java_command
from tests.loopback import free_port
from tests.waiting import until

NODES = (1, 2, 3)
# Each listener's protocol of security. Those of _OF_FIRST are of the first node alone.
LISTENERS = {"SECURED": "SASL_SSL", "MUTUAL": "SSL", "CLEAR": "SASL_PLAINTEXT", "INTERNAL": "PLAINTEXT"}
_OF_FIRST = {"EXPIRED": "SASL_SSL", "ELSEWHERE": "SASL_SSL"}
USER, NOBODY = "chaos", "nobody"
_MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
_CA = """\
[ca]
default_ca = it
[it]
database = {folder}/index
new_certs_dir = {folder}
serial = {folder}/serial
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = supplied
"""


@dataclass(frozen=True, kw_only=True)
class Certificates:
    """Below `folder`: NAME.pem with its key, NAME.crt and NAME.key apart, and the authority's own, ca.crt."""

    folder: Path

    def make_authority(self, name: str = "ca") -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "index").touch()
        (self.folder / "serial").write_text("01\n")
        (self.folder / "ca.cnf").write_text(_CA.format(folder=self.folder))
        places = ["-keyout", self._path(name, "key"), "-out", self._path(name, "crt")]
        self._openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", f"/CN={name}", *places)

    def issue(self, name: str, *, alternatives: str = "", is_expired: bool = False) -> None:
        request = ["req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", self._path(name, "key")]
        extensions = ["-addext", f"subjectAltName={alternatives}"] if alternatives else []
        self._openssl(*request, *extensions, "-out", self._path(name, "csr"))
        until_ = ["-startdate", "20200101000000Z", "-enddate", "20200102000000Z"] if is_expired else ["-days", "30"]
        signing = ["-cert", self._path("ca", "crt"), "-keyfile", self._path("ca", "key"), "-notext", "-batch"]
        self._openssl(
            *("ca", "-config", self._path("ca", "cnf"), *signing, *until_),
            *("-in", self._path(name, "csr"), "-out", self._path(name, "crt")),
        )
        whole = [Path(self._path(name, kind)).read_text() for kind in ("key", "crt")]
        Path(self._path(name, "pem")).write_text("".join([*whole, Path(self._path("ca", "crt")).read_text()]))

    def encrypt_key(self, name: str, password: str) -> None:
        """NAME-locked.key, which only the password opens."""
        out = self._path(f"{name}-locked", "key")
        self._openssl("rsa", "-aes256", "-passout", f"pass:{password}", "-in", self._path(name, "key"), "-out", out)

    def path(self, name: str) -> Path:
        return self.folder / name

    def _path(self, name: str, kind: str) -> str:
        return str(self.folder / f"{name}.{kind}")

    def _openssl(self, *arguments: str) -> None:
        ended = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False, timeout=60)
        assert ended.returncode == 0, ended.stderr


@dataclass(frozen=True, kw_only=True)
class SecuredKafka:
    folder: Path
    home: KafkaHome
    password: str = field(default_factory=lambda: f"pw-{secrets.token_hex(12)}")

    @property
    def certificates(self) -> Certificates:
        return Certificates(folder=self.folder / "certificates")

    def prepare(self) -> None:
        """Certificates, configuration and formatted storage of each node."""
        certificates = self.certificates
        certificates.make_authority()
        certificates.issue("broker", alternatives="IP:127.0.0.1,DNS:localhost")
        certificates.issue("expired", alternatives="IP:127.0.0.1", is_expired=True)
        certificates.issue("elsewhere", alternatives="DNS:elsewhere.example")
        certificates.issue(USER)
        Certificates(folder=self.folder / "others").make_authority()
        ports = {str(node): {name: free_port("127.0.0.1") for name in self._names(node)} for node in NODES}
        (self.folder / "ports.json").write_text(json.dumps(ports))
        identity = base64.urlsafe_b64encode(b"kafka-chaos-node").decode().rstrip("=")
        for node in NODES:
            lines = [f"{key}={value}\n" for key, value in self._settings(node).items()]
            self._properties(node).write_text("".join(lines))
            self._format(node, identity)

    def _names(self, node: int) -> Sequence[str]:
        return ["CONTROLLER", *LISTENERS, *(_OF_FIRST if node == NODES[0] else ())]

    def _format(self, node: int, identity: str) -> None:
        scram = [
            word
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for word in ("--add-scram", f"{mechanism}=[name={USER},password={self.password}]")
        ]
        arguments = ["format", "-t", identity, "-c", str(self._properties(node)), *scram]
        command = java_command(self.home, "kafka.tools.StorageTool", *arguments)
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert ended.returncode == 0, ended.stdout + ended.stderr

    def _properties(self, node: int) -> Path:
        return self.folder / f"node-{node}.properties"

    def port(self, node: int, listener: str) -> int:
        return int(json.loads((self.folder / "ports.json").read_text())[str(node)][listener])

    def bootstrap(self, listener: str = "SECURED") -> str:
        nodes = NODES if listener in LISTENERS else NODES[:1]
        return ",".join(f"127.0.0.1:{self.port(node, listener)}" for node in nodes)

    def _settings(self, node: int) -> dict[str, str]:
        protocols = {**LISTENERS, **(_OF_FIRST if node == NODES[0] else {})}
        places = [f"{name}://127.0.0.1:{self.port(node, name)}" for name in protocols]
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.quorum.voters": ",".join(f"{each}@127.0.0.1:{self.port(each, 'CONTROLLER')}" for each in NODES),
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join([*places, f"CONTROLLER://127.0.0.1:{self.port(node, 'CONTROLLER')}"]),
            "advertised.listeners": ",".join(places),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in {**protocols, "CONTROLLER": "PLAINTEXT"}.items()
            ),
            "inter.broker.listener.name": "INTERNAL",
            "log.dirs": str(self.folder / f"data-{node}"),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",  # the listeners of the nodes themselves
            "ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/,DEFAULT",
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "3",
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "replica.lag.time.max.ms": "3000",
            "log.cleaner.dedupe.buffer.size": "4194304",
            "num.network.threads": "2",
            "num.io.threads": "2",
        }
        for name, protocol in protocols.items():
            settings |= self._of_listener(f"listener.name.{name.lower()}.", name, protocol)
        return settings

    def _of_listener(self, prefix: str, name: str, protocol: str) -> dict[str, str]:
        settings: dict[str, str] = {}
        if protocol.endswith("SSL"):
            own = {"EXPIRED": "expired", "ELSEWHERE": "elsewhere"}.get(name, "broker")
            settings |= {
                f"{prefix}ssl.keystore.type": "PEM",
                f"{prefix}ssl.keystore.location": str(self.certificates.path(f"{own}.pem")),
                f"{prefix}ssl.truststore.type": "PEM",
                f"{prefix}ssl.truststore.location": str(self.certificates.path("ca.crt")),
                f"{prefix}ssl.client.auth": "required" if name == "MUTUAL" else "none",
            }
        if protocol.startswith("SASL"):
            modules = "org.apache.kafka.common.security"
            users = f'user_{USER}="{self.password}" user_{NOBODY}="{self.password}"'
            scram = f"{modules}.scram.ScramLoginModule required;"
            settings |= {
                f"{prefix}sasl.enabled.mechanisms": _MECHANISMS if name == "SECURED" else "PLAIN",
                f"{prefix}plain.sasl.jaas.config": f"{modules}.plain.PlainLoginModule required {users};",
            }
        if name == "SECURED":
            own_claim = 'unsecuredLoginStringClaim_sub="broker"'
            settings |= {
                f"{prefix}scram-sha-256.sasl.jaas.config": scram,
                f"{prefix}scram-sha-512.sasl.jaas.config": scram,
                f"{prefix}oauthbearer.sasl.jaas.config": (
                    f"{modules}.oauthbearer.OAuthBearerLoginModule required {own_claim};"
                ),
            }
        return settings

    def grant(self, user: str) -> None:
        """All that a run needs, and no more."""
        needed = [("TOPIC", "*", each) for each in ("READ", "WRITE", "CREATE", "DELETE", "DESCRIBE_CONFIGS")]
        needed += [("GROUP", "*", "READ"), ("TRANSACTIONAL_ID", "*", "WRITE")]
        needed += [("CLUSTER", "kafka-cluster", each) for each in ("DESCRIBE", "DESCRIBE_CONFIGS")]
        administration = KafkaAdminClient(bootstrap_servers=self.bootstrap("INTERNAL").split(","))
        try:
            administration.create_acls(
                [
                    ACL(
                        principal=f"User:{user}",
                        host="*",
                        operation=ACLOperation[operation],
                        permission_type=ACLPermissionType.ALLOW,
                        resource_pattern=ResourcePattern(ResourceType[kind], name),
                    )
                    for kind, name, operation in needed
                ]
            )
        finally:
            administration.close()

    # -- what the operator does -------------------------------------------------------------------------------------

    def start(self, node: int) -> None:
        command = java_command(self.home, "kafka.Kafka", str(self._properties(node)))
        with (self.folder / f"node-{node}.log").open("ab") as log:
            started = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=self.folder
            )
        (self.folder / f"node-{node}.pid").write_text(str(started.pid))

    def stop(self, node: int, number: int = signal.SIGTERM) -> None:
        """Returns when the process has ended."""
        pid = self.pid(node)
        if pid is not None:
            os.kill(pid, number)
            until(lambda: self.pid(node) is None, f"node {node} has ended")

    def kill(self, node: int) -> None:
        self.stop(node, signal.SIGKILL)

    def wait_until_up(self) -> None:
        def all_are_known() -> bool:
            try:
                administration = KafkaAdminClient(bootstrap_servers=self.bootstrap("INTERNAL").split(","))
            except KafkaError:
                return False
            try:
                return len(administration.describe_cluster()["brokers"]) == len(NODES)
            except KafkaError:
                return False
            finally:
                administration.close()

        until(all_are_known, "all nodes are registered", timeout_s=180)

    def topics(self) -> set[str]:
        administration = KafkaAdminClient(bootstrap_servers=self.bootstrap("INTERNAL").split(","))
        try:
            return set(administration.list_topics())
        finally:
            administration.close()

    def make_topic(self, name: str) -> None:
        """Led by the first node, which has every listener."""
        administration = KafkaAdminClient(bootstrap_servers=self.bootstrap("INTERNAL").split(","))
        try:
            administration.create_topics([NewTopic(name, -1, -1, replica_assignments={0: list(NODES)})])
        finally:
            administration.close()

    def pid(self, node: int) -> int | None:
        """None if it does not run."""
        note = self.folder / f"node-{node}.pid"
        if not note.is_file():
            return None
        pid = int(note.read_text())
        with contextlib.suppress(ChildProcessError):  # where another process is the parent
            os.waitpid(pid, os.WNOHANG)
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return None
        return pid if os.fsencode(self._properties(node)) in words else None


def token(user: str, *, lasts_s: int) -> str:
    """A token as Kafka's own validator for tests takes it: a JSON Web Token without a signature."""

    def part(claims: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")

    now_s = int(time.time())
    return f"{part({'alg': 'none'})}.{part({'sub': user, 'iat': now_s, 'exp': now_s + lasts_s})}."


def main() -> None:
    from harness.cluster.brokers.kafka_jars import installed
    from harness.cluster.brokers.kafka_versions import resolve_version

    folder, act, node = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    home = installed(resolve_version("4.3.1"))
    assert home is not None
    kafka = SecuredKafka(folder=folder, home=home)
    if act == "start":
        if kafka.pid(node) is None:
            kafka.start(node)
    else:
        kafka.stop(node)


if __name__ == "__main__":
    main()
