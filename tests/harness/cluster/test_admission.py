"""Whoever is not let in by a secured listener is told why, by typed facts of the connection, and nothing secret is said
to a listener that has not proved itself."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from harness.cluster.admission import NotAdmitted, Refusal
from harness.cluster.attached.cluster import registered
from harness.cluster.attached.listener import refusal_of
from harness.cluster.attached.reachability import becomes, is_answering, is_gone, look_at
from harness.cluster.broker_requests import connections
from harness.errors import HarnessError
from harness.ports.security import SecuritySpec, Unusable, tls_context
from tests.harness.cluster.secured_listener import Listener, listening, refusing_certificates, server_context
from tests.interop.secured_kafka import Certificates
from tests.waiting import comes_true

SECRET = "pw-of-this-test"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates(folder=tmp_path_factory.mktemp("certificates"))
    made.make_authority()
    made.issue("broker", alternatives="IP:127.0.0.1,DNS:localhost")
    made.issue("expired", alternatives="IP:127.0.0.1", is_expired=True)
    made.issue("elsewhere", alternatives="DNS:elsewhere.example")
    made.issue("chaos")
    made.encrypt_key("chaos", SECRET)
    Certificates(folder=made.folder / "others").make_authority()
    return made


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", SECRET)


@pytest.fixture
def trusting(certificates: Certificates) -> SecuritySpec:
    return SecuritySpec(ca_file=str(certificates.path("ca.crt")))


def with_password(security: SecuritySpec, mechanism: str = "PLAIN") -> SecuritySpec:
    return replace(security, sasl=mechanism, user="chaos", password_env="PASSWORD")


async def refused(
    listener: Listener, security: SecuritySpec | None, context: ssl.SSLContext | None = None
) -> Refusal | None:
    async with listening(listener, context) as place:
        refusal = await refusal_of(place, security)
        assert refusal is None or str(refusal).startswith(f"127.0.0.1:{place[1]}: ")
        return None if refusal is None else refusal.refusal


Change = Callable[[SecuritySpec, Certificates], SecuritySpec | None]


@pytest.mark.parametrize(
    ("certificate", "change", "refusal"),
    [
        ("broker", lambda ours, _: ours, None),
        ("broker", lambda ours, _: None, Refusal.WANTS_TLS),
        ("broker", lambda ours, _: replace(ours, ca_file=""), Refusal.UNTRUSTED),
        ("broker", lambda ours, made: replace(ours, ca_file=str(made.path("others/ca.crt"))), Refusal.UNTRUSTED),
        ("expired", lambda ours, _: ours, Refusal.EXPIRED),
        ("elsewhere", lambda ours, _: ours, Refusal.OTHER_NAME),
        ("elsewhere", lambda ours, _: replace(ours, verify_host_name=False), None),
    ],
)
async def test_what_is_wrong_with_a_brokers_certificate_is_told_apart(
    certificates: Certificates, trusting: SecuritySpec, certificate: str, change: Change, refusal: Refusal | None
) -> None:
    context = server_context(certificates, certificate)
    assert await refused(Listener(), change(trusting, certificates), context) == refusal


@pytest.mark.parametrize(
    ("own", "refusal"),
    [("", Refusal.CERTIFICATE_WANTED), ("expired", Refusal.CERTIFICATE_REFUSED)],
)
async def test_a_listener_that_wants_a_certificate_says_what_is_wrong_with_ours(
    certificates: Certificates, trusting: SecuritySpec, own: str, refusal: Refusal
) -> None:
    ours = replace(trusting, certificate_file=str(certificates.path(f"{own}.pem"))) if own else trusting
    with refusing_certificates(certificates) as place:
        refused_by = await refusal_of(place, ours)
    assert refused_by is not None
    assert refused_by.refusal == refusal


@pytest.mark.parametrize("tls", [True, False])
async def test_a_listener_that_wants_sasl_is_found_out_and_what_it_takes(
    certificates: Certificates, trusting: SecuritySpec, tls: bool
) -> None:
    context = server_context(certificates, "broker") if tls else None
    async with listening(Listener(mechanism="PLAIN"), context) as place:
        refusal = await refusal_of(place, trusting if tls else None)
    assert refusal is not None
    assert refusal.refusal is Refusal.WANTS_SASL
    assert "sasl, one of PLAIN, in [attached.security]" in refusal.remedy


async def test_a_listener_that_wants_both_is_told_at_once(certificates: Certificates) -> None:
    assert (
        await refused(Listener(mechanism="PLAIN"), None, server_context(certificates, "broker")) == Refusal.WANTS_BOTH
    )


async def test_a_listener_without_tls_or_sasl_is_told(trusting: SecuritySpec) -> None:
    assert await refused(Listener(), trusting) == Refusal.SPEAKS_NO_TLS
    assert await refused(Listener(), with_password(SecuritySpec(tls=False))) == Refusal.WANTS_NO_SASL


@pytest.mark.parametrize(
    ("listener", "refusal"),
    [
        (Listener(mechanism="PLAIN"), None),
        (Listener(mechanism="PLAIN", refuses=True), Refusal.CREDENTIALS),
        (Listener(mechanism="SCRAM-SHA-256"), Refusal.OTHER_MECHANISM),
    ],
)
async def test_what_a_broker_answers_to_user_and_password_is_told(
    certificates: Certificates, trusting: SecuritySpec, listener: Listener, refusal: Refusal | None
) -> None:
    assert await refused(listener, with_password(trusting), server_context(certificates, "broker")) == refusal


async def test_who_answers_scram_without_knowing_the_password_is_no_broker_of_ours(
    certificates: Certificates, trusting: SecuritySpec
) -> None:
    listener, ours = Listener(mechanism="SCRAM-SHA-512"), with_password(trusting, "SCRAM-SHA-512")
    assert await refused(listener, ours, server_context(certificates, "broker")) == Refusal.SERVER_UNPROVEN


async def test_a_listener_whose_certificate_is_not_trusted_hears_no_secret(certificates: Certificates) -> None:
    listener = Listener(mechanism="PLAIN")
    await refused(listener, with_password(SecuritySpec()), server_context(certificates, "broker"))
    assert listener.said == []


async def test_a_session_is_begun_anew_before_it_ends(certificates: Certificates, trusting: SecuritySpec) -> None:
    listener = Listener(mechanism="PLAIN", lifetime_ms=50)
    async with listening(listener, server_context(certificates, "broker")) as place:
        connection = connections(with_password(trusting))(*place)

        async def there_are_three() -> bool:
            await connection.ask(MetadataRequest(topics=[]), 4, timeout_s=20)
            return listener.sessions == 3

        await comes_true(there_are_three, "three sessions, one after the other")
        connection.close()


async def test_being_let_in_may_take_longer_than_a_question_waits(
    certificates: Certificates, trusting: SecuritySpec
) -> None:
    """Three answers each later than that: a connection that was begun anew for each question would never be there."""
    async with listening(Listener(mechanism="PLAIN", delay_s=0.4), server_context(certificates, "broker")) as place:
        connection = connections(with_password(trusting))(*place)

        async def is_answered() -> bool:
            try:
                await connection.ask(MetadataRequest(topics=[]), 4, timeout_s=0.5)
            except TimeoutError:
                return False
            return True

        assert not await is_answered()
        await comes_true(is_answered, "an answer")
        connection.close()


async def test_a_connection_that_is_closed_while_it_is_let_in_leaves_nothing(
    certificates: Certificates, trusting: SecuritySpec
) -> None:
    listener = Listener(mechanism="PLAIN", delay_s=60)
    async with listening(listener, server_context(certificates, "broker")) as place:
        connection = connections(with_password(trusting))(*place)
        with pytest.raises(TimeoutError):
            await connection.ask(MetadataRequest(topics=[]), 4, timeout_s=0.1)
        connection.close()
        await comes_true(nobody_is_being_admitted, "the attempt has ended")


async def test_who_waits_to_be_let_in_is_told_when_the_connection_is_closed(
    certificates: Certificates, trusting: SecuritySpec
) -> None:
    listener = Listener(mechanism="PLAIN", delay_s=60)
    async with listening(listener, server_context(certificates, "broker")) as place:
        connection = connections(with_password(trusting))(*place)
        waiting = asyncio.create_task(connection.ask(MetadataRequest(topics=[]), 4, timeout_s=30))

        async def is_waiting() -> bool:
            return not await nobody_is_being_admitted()

        await comes_true(is_waiting, "it waits to be let in")
        connection.close()
        with pytest.raises(ConnectionAbortedError):
            await waiting


async def nobody_is_being_admitted() -> bool:
    return all(task.get_name() != "admission" for task in asyncio.all_tasks())


async def test_a_session_without_end_is_the_only_one(certificates: Certificates, trusting: SecuritySpec) -> None:
    listener = Listener(mechanism="PLAIN")
    async with listening(listener, server_context(certificates, "broker")) as place:
        connection = connections(with_password(trusting))(*place)
        for _ in range(3):
            await connection.ask(MetadataRequest(topics=[]), 4, timeout_s=20)
        connection.close()
    assert listener.sessions == 1


async def test_a_broker_that_lets_nobody_in_is_neither_gone_nor_answering(
    certificates: Certificates, trusting: SecuritySpec
) -> None:
    """Else a fault would be taken for proved, or a broker that loads its users still for started."""
    refusing = Listener(mechanism="PLAIN", refuses=True)
    async with listening(refusing, server_context(certificates, "broker")) as place:
        seen = await look_at(*place, connect=connections(with_password(trusting)))
    assert not is_gone(seen)
    assert not is_answering(seen)


async def test_a_broker_that_has_just_started_may_take_its_time_to_let_us_in(
    certificates: Certificates, trusting: SecuritySpec
) -> None:
    """Its first handshakes of TLS take seconds on a machine that is busy; each look begins with one."""
    async with listening(Listener(mechanism="PLAIN", delay_s=0.8), server_context(certificates, "broker")) as place:
        connect = connections(with_password(trusting))
        came, seen = await becomes(*place, is_answering, within_s=60, connect=connect)
    assert came, seen.words


async def test_a_run_that_finds_nobody_to_answer_says_what_the_listener_wants(
    certificates: Certificates, trusting: SecuritySpec
) -> None:
    """Where no preflight could ask it: of containers, whose addresses are found as the run begins."""
    async with listening(Listener(mechanism="PLAIN"), server_context(certificates, "broker")) as (host, port):
        for security, said in ((None, "wants TLS and SASL; give sasl"), (trusting, "wants SASL; give sasl")):
            with pytest.raises(HarnessError, match=rf"^{host}:{port}: the listener {said}, one of PLAIN"):
                await registered(f"{host}:{port}", "compose:mine.yaml", security=security)


async def test_a_secret_that_cannot_be_read_any_more_is_a_connection_that_failed(
    certificates: Certificates, trusting: SecuritySpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of a run that costs an answer, and not the run."""
    monkeypatch.delenv("PASSWORD")
    async with listening(Listener(mechanism="PLAIN"), server_context(certificates, "broker")) as place:
        connection = connections(with_password(trusting))(*place)
        with pytest.raises(NotAdmitted, match="the environment variable PASSWORD is not set") as refusal:
            await connection.ask(MetadataRequest(topics=[]), 4, timeout_s=20)
    assert refusal.value.key == "password_env"


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"ca_file": "nothing"}, "ca_file"),
        ({"ca_file": "index"}, "ca_file"),
        ({"certificate_file": "nothing"}, "certificate_file"),
        ({"certificate_file": "chaos.crt", "key_file": "nothing"}, "key_file"),
        ({"certificate_file": "chaos.crt", "key_file": "broker.key"}, "key_file"),
        ({"certificate_file": "chaos.crt", "key_file": "chaos-locked.key"}, "key_file"),
        ({"certificate_file": "chaos.crt"}, "certificate_file"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_key(
    certificates: Certificates, trusting: SecuritySpec, fields: dict[str, Any], key: str
) -> None:
    named: dict[str, Any] = {field: str(certificates.path(name)) for field, name in fields.items()}
    with pytest.raises(Unusable) as unusable:
        tls_context(replace(trusting, **named))
    assert unusable.value.key == key
    assert Path(named[key]).name in str(unusable.value)


@pytest.mark.parametrize("variable", ["PASSWORD", "WRONG", "UNSET"])
def test_a_locked_key_is_opened_by_its_password_alone(
    certificates: Certificates, trusting: SecuritySpec, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv("WRONG", "something else")
    places = {"certificate_file": "chaos.crt", "key_file": "chaos-locked.key"}
    named: dict[str, Any] = {field: str(certificates.path(name)) for field, name in places.items()}
    security = replace(trusting, **named, key_password_env=variable)
    keys = [each.key for each in security.check()]
    assert keys == {"PASSWORD": [], "WRONG": ["key_file"], "UNSET": ["key_password_env"]}[variable]
