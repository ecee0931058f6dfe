"""What a listener wants that did not let us in: asked only after a connection broke without a word.

Nothing secret is sent to it, whoever it is: a handshake of TLS, a request for versions, and one for a mechanism of SASL
that nobody has, which is answered with those that there are.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.sasl import SaslHandshakeRequest

from harness.cluster.admission import NotAdmitted, Refusal
from harness.cluster.broker_requests import BrokerConnection, connections
from harness.ports.security import SecuritySpec, unverified_context

_ASK_S = 3.0
_NOBODYS_MECHANISM = "NONE"
_UNSUPPORTED_MECHANISM = 33
Place = tuple[str, int]


async def refusal_of(place: Place, security: SecuritySpec | None) -> NotAdmitted | None:
    """Why this listener lets nobody in with this security. None where it does, or where that is not why it fails."""
    connection = connections(security)(*place)
    try:
        await connection.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False), 4, timeout_s=_ASK_S)
    except NotAdmitted as refused:
        return refused
    except TimeoutError:
        return None
    except OSError:  # an answer that cannot be read too: it may be TLS's
        return await what_it_wants(place, security)
    finally:
        connection.close()
    return None


async def what_it_wants(place: Place, security: SecuritySpec | None) -> NotAdmitted | None:
    """After a connection to it was closed without an answer."""
    tls, sasl = security is not None and security.tls, security is not None and bool(security.sasl)
    mechanisms = await _mechanisms(place, None)
    over_tls = None if mechanisms is not None else await _mechanisms(place, unverified_context())
    if mechanisms is not None and tls:
        return NotAdmitted.by(Refusal.SPEAKS_NO_TLS, place)
    if mechanisms and not sasl:
        return NotAdmitted.by(Refusal.WANTS_SASL, place, mechanisms)
    if over_tls is not None and not tls:
        return NotAdmitted.by(Refusal.WANTS_BOTH if over_tls and not sasl else Refusal.WANTS_TLS, place, over_tls)
    if over_tls and not sasl:
        return NotAdmitted.by(Refusal.WANTS_SASL, place, over_tls)
    return None


async def _mechanisms(place: Place, context: ssl.SSLContext | None) -> Sequence[str] | None:
    """The mechanisms of SASL that the listener offers on such a connection; empty if it wants none, None if it does not
    answer on it."""
    try:
        async with asyncio.timeout(_ASK_S), _plainly(place, context) as connection:
            versions = await connection.ask_plainly(ApiVersionsRequest(), 0)
            if all(each.api_key != SaslHandshakeRequest.API_KEY for each in versions.api_keys):
                return ()
            answer = await connection.ask_plainly(SaslHandshakeRequest(mechanism=_NOBODYS_MECHANISM), 1)
    except ssl.SSLError as error:
        return () if error.reason in _SPEAKS_TLS else None
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return None
    return tuple(answer.mechanisms) if answer.error_code == _UNSUPPORTED_MECHANISM else ()


# What only who speaks TLS answers to a client without a certificate.
_SPEAKS_TLS = frozenset(
    {
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "SSLV3_ALERT_HANDSHAKE_FAILURE",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        "TLSV1_ALERT_PROTOCOL_VERSION",
        "TLSV1_ALERT_INSUFFICIENT_SECURITY",
        "TLSV1_UNRECOGNIZED_NAME",
    }
)


class _Plain(BrokerConnection):
    """Without what a secured listener wants before the first request."""

    async def ask_plainly(self, request: Any, version: int) -> Any:
        return await self._exchange(request, version)

    async def open(self, context: ssl.SSLContext | None) -> None:
        self._reader, self._writer = await asyncio.open_connection(*self._address, ssl=context)


@asynccontextmanager
async def _plainly(place: Place, context: ssl.SSLContext | None) -> AsyncIterator[_Plain]:
    connection = _Plain(*place)
    try:
        await connection.open(context)
        yield connection
    finally:
        connection.close()
