"""How a connection to a secured listener begins, and why one was not let in, as a typed fact with its remedy.

SASL is spoken with kafka-python's mechanisms, which know the bytes and no socket.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from harness.ports.security import BY_TOKEN, SecuritySpec, Unusable

Exchange = Callable[[Any, int], Awaitable[Any]]  # a request, in which version

_UNSUPPORTED_MECHANISM, _ILLEGAL_STATE = 33, 34
_EXPIRED, _NOT_YET_VALID, _OTHER_NAME, _OTHER_ADDRESS = 10, 9, 62, 64  # OpenSSL's X509_V_ERR_*
_RENEWED_AFTER = 0.8  # of a session's lifetime (KIP-368)


class Refusal(Enum):
    """What was wrong; the key of [attached.security] that it is about, what it is in words, and the remedy."""

    WANTS_TLS = "tls", "the listener wants TLS", "give [attached.security] (and no tls = false)"
    WANTS_SASL = "sasl", "the listener wants SASL", "give sasl, one of {mechanisms}, in [attached.security]"
    WANTS_BOTH = "sasl", "the listener wants TLS and SASL", "give sasl, one of {mechanisms}, in [attached.security]"
    SPEAKS_NO_TLS = "tls", "the listener speaks no TLS", "give tls = false, or the address of one that does"
    WANTS_NO_SASL = "sasl", "the listener wants no SASL", "leave sasl out, or give the address of one that does"
    OTHER_MECHANISM = "sasl", "the listener does not take that mechanism", "give sasl = one of {mechanisms}"
    CREDENTIALS = "user", "it refuses the user, the password or the token", "check them against the broker's"
    SERVER_UNPROVEN = "sasl", "it does not prove that it knows the password", "find out who answers there"
    UNTRUSTED = "ca_file", "its certificate is of no authority that is trusted here", "give that authority's ca_file"
    OTHER_NAME = (
        "verify_host_name",
        "its certificate is for another name",
        "use a name that is in it, or verify_host_name = false",
    )
    EXPIRED = "ca_file", "its certificate has expired", "have the broker's certificate renewed"
    NOT_YET_VALID = "ca_file", "its certificate is not valid yet", "look at the clocks of both machines"
    CERTIFICATE_WANTED = "certificate_file", "it wants a client's certificate", "give certificate_file and key_file"
    CERTIFICATE_REFUSED = (
        "certificate_file",
        "it refuses the client's certificate",
        "give one that its authorities signed, and that has not expired",
    )
    NO_COMMON_TLS = (
        "tls",
        "it has no version or cipher of TLS in common with us",
        "let it take TLS 1.2 or 1.3",
    )
    TOO_OLD = "sasl", "it is older than Kafka 1.0, whose SASL is spoken otherwise", "attach to a newer one"

    def __init__(self, key: str, words: str, remedy: str) -> None:
        self.key, self.words, self.remedy = key, words, remedy


class NotAdmitted(OSError):
    """A listener that is there, and to which there is no way with this [attached.security]. `key` of it is to blame."""

    def __init__(self, *, key: str, what: str, remedy: str, refusal: Refusal | None) -> None:
        self.key, self.what, self.remedy, self.refusal = key, what, remedy, refusal
        super().__init__(f"{what}; {remedy}" if remedy else what)

    @classmethod
    def by(cls, refusal: Refusal, place: tuple[str, int], mechanisms: Sequence[str] = ()) -> "NotAdmitted":
        remedy = refusal.remedy.format(mechanisms=", ".join(mechanisms) or "the broker's")
        what = f"{place[0]}:{place[1]}: {refusal.words}"
        return cls(key=refusal.key, what=what, remedy=remedy, refusal=refusal)

    @classmethod
    def for_want_of(cls, lack: Unusable) -> "NotAdmitted":
        return cls(key=lack.key, what=str(lack), remedy="", refusal=None)


# OpenSSL's own symbols for the alerts of the other side (RFC 8446, section 6).
_ALERTS: Mapping[str, Refusal] = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": Refusal.CERTIFICATE_WANTED,
    "SSLV3_ALERT_BAD_CERTIFICATE": Refusal.CERTIFICATE_REFUSED,
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": Refusal.CERTIFICATE_REFUSED,
    "SSLV3_ALERT_CERTIFICATE_REVOKED": Refusal.CERTIFICATE_REFUSED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": Refusal.CERTIFICATE_REFUSED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": Refusal.CERTIFICATE_REFUSED,
    "TLSV1_ALERT_UNKNOWN_CA": Refusal.CERTIFICATE_REFUSED,
    "TLSV1_ALERT_ACCESS_DENIED": Refusal.CERTIFICATE_REFUSED,
    "TLSV1_ALERT_PROTOCOL_VERSION": Refusal.NO_COMMON_TLS,
    "TLSV1_ALERT_INSUFFICIENT_SECURITY": Refusal.NO_COMMON_TLS,
    "SSLV3_ALERT_HANDSHAKE_FAILURE": Refusal.NO_COMMON_TLS,
}
_OF_CERTIFICATE: Mapping[int, Refusal] = {
    _EXPIRED: Refusal.EXPIRED,
    _NOT_YET_VALID: Refusal.NOT_YET_VALID,
    _OTHER_NAME: Refusal.OTHER_NAME,
    _OTHER_ADDRESS: Refusal.OTHER_NAME,
}


def refusal_by_tls(error: ssl.SSLError, security: SecuritySpec) -> Refusal | None:
    """None where the connection was only cut, or the other side spoke something else."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _OF_CERTIFICATE.get(error.verify_code, Refusal.UNTRUSTED)
    refusal = _ALERTS.get(error.reason or "")
    if refusal in (Refusal.CERTIFICATE_REFUSED, Refusal.NO_COMMON_TLS) and not security.certificate_file:
        # What brokers answer who want a certificate and get none: bad_certificate, or handshake_failure before TLS 1.3.
        return Refusal.CERTIFICATE_WANTED
    return refusal


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, security: SecuritySpec) -> None:
        super().__init__()
        self._security = security

    def token(self) -> str:
        return self._security.token().text


async def authenticate(
    exchange: Exchange, security: SecuritySpec, *, handshake_version: int | None, place: tuple[str, int]
) -> float | None:
    """Says who asks. Returns how many seconds the session may be used for; None: without end.

    Raises NotAdmitted, OSError, or Unusable for a secret that cannot be read.
    """
    if not handshake_version:
        raise NotAdmitted.by(Refusal.TOO_OLD if handshake_version == 0 else Refusal.WANTS_NO_SASL, place)
    answer = await exchange(SaslHandshakeRequest(mechanism=security.sasl), 1)
    if answer.error_code == _UNSUPPORTED_MECHANISM:
        raise NotAdmitted.by(Refusal.OTHER_MECHANISM, place, answer.mechanisms)
    if answer.error_code == _ILLEGAL_STATE:
        raise NotAdmitted.by(Refusal.WANTS_NO_SASL, place)
    # In a thread: a token may be waited for, and SCRAM hashes thousands of times.
    mechanism = await asyncio.to_thread(_mechanism_of, security)
    lifetime_ms = 0
    while not mechanism.is_done():
        token = await asyncio.to_thread(mechanism.auth_bytes)
        answer = await exchange(SaslAuthenticateRequest(auth_bytes=token), 1)
        if answer.error_code:
            raise NotAdmitted.by(Refusal.CREDENTIALS, place)
        lifetime_ms = getattr(answer, "session_lifetime_ms", None) or 0
        try:
            await asyncio.to_thread(mechanism.receive, bytes(answer.auth_bytes or b""))
        except (ValueError, LookupError):  # of SCRAM: what only who knows the password can answer
            raise NotAdmitted.by(Refusal.SERVER_UNPROVEN, place) from None
        if security.sasl == BY_TOKEN and not mechanism.is_done():  # it said why it refuses the token
            raise NotAdmitted.by(Refusal.CREDENTIALS, place)
    if not mechanism.is_authenticated():
        raise NotAdmitted.by(Refusal.CREDENTIALS, place)
    return _RENEWED_AFTER * lifetime_ms / 1000 if lifetime_ms > 0 else None


def _mechanism_of(security: SecuritySpec) -> Any:
    if security.sasl == BY_TOKEN:
        return get_sasl_mechanism(BY_TOKEN)(sasl_oauth_token_provider=_Tokens(security))
    return get_sasl_mechanism(security.sasl)(
        sasl_mechanism=security.sasl, sasl_plain_username=security.user, sasl_plain_password=security.read_password()
    )
