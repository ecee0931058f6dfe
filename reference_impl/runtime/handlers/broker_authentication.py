"""Mutual authentication of the brokers of one cluster: both ends of a connection prove that they know the cluster's
secret.

The secret is in a file (`chaos.cluster.secret.file`) that every node of the cluster gets and no other user can read. A
connection between brokers opens with two SaslAuthenticate requests, Kafka's message for this purpose (there is only one
mechanism, so it is not negotiated): first names and challenges, then proofs. Each proof is an HMAC over the caller, the
callee and both challenges. The secret is never sent, and a proof is useless on another connection or to another broker.
Requests in a broker's name (api.py) are accepted only on a connection authenticated as that broker; authentication
happens once per connection, and each request costs one comparison.

Other users of this machine can still connect to every listener and are served like any client: there are no ACLs. They
cannot fetch as a replica, so they cannot move a high watermark; they cannot change an ISR or act as the controller. Not
protected: the coordination service authenticates nobody, and brokers trust its contents. Whoever reaches it can change
them, or register in the place of a live broker and relay its requests. Nothing is encrypted either: whoever can read or
change the traffic of the network interface (root) needs no secret.
"""

import hmac
import stat
import struct
from pathlib import Path
from random import Random
from typing import Any

from reference_impl.core.identifiers import ErrorCode
from reference_impl.runtime.config import ConfigurationError
from reference_impl.runtime.connections import Exchange
from reference_impl.runtime.server import Caller
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import Request, request_class, response_class

SASL_AUTHENTICATE_VERSION = 2
SECRET_BYTES_MIN = 16
CHALLENGE_BYTES = 32

SaslAuthenticateRequest = request_class(ApiKey.SASL_AUTHENTICATE)
SaslAuthenticateResponse = response_class(ApiKey.SASL_AUTHENTICATE)

_NAMES = struct.Struct(">ii")  # broker ids of caller and callee


class AuthenticationFailed(OSError):
    """The peer failed to authenticate as the expected broker of this cluster, or rejected this broker."""


def read_secret(path: Path) -> bytes:
    """Raises ConfigurationError if the file is missing, too short or readable by other users."""
    place = f"chaos.cluster.secret.file={path}"
    try:
        mode = path.stat().st_mode
        secret = path.read_bytes().strip()
    except OSError as error:
        raise ConfigurationError(f"{place}: {error.strerror}; name a file with the cluster's secret") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigurationError(f"{place}: others than its owner have access to it; chmod 600 {path}")
    if len(secret) < SECRET_BYTES_MIN:
        raise ConfigurationError(f"{place}: holds {len(secret)} bytes; a secret has at least {SECRET_BYTES_MIN}")
    return secret


def write_secret(path: Path, secret: str) -> None:
    """Creates the file readable by its owner only, from the first byte on."""
    path.touch(mode=stat.S_IRUSR | stat.S_IWUSR)
    path.write_text(secret + "\n", encoding="ascii")


class BrokerAuthentication:
    """Both sides of the authentication, for one broker."""

    def __init__(self, secret: bytes, *, broker_id: int, randomness: Random) -> None:
        self._secret = secret
        self._broker_id = broker_id
        self._randomness = randomness

    async def authenticate(self, exchange: Exchange, to: int) -> None:
        """Authenticates to broker `to` over a new connection. Raises AuthenticationFailed."""
        names, own = _NAMES.pack(self._broker_id, to), self._randomness.randbytes(CHALLENGE_BYTES)
        answer = await _said(exchange, names + own)
        challenges = own + answer[:CHALLENGE_BYTES]
        if not hmac.compare_digest(answer[CHALLENGE_BYTES:], self._proof(b"asked", names, challenges)):
            raise AuthenticationFailed(f"what answers for broker {to} does not know this cluster's secret")
        await _said(exchange, self._proof(b"asking", names, challenges))

    def answer(self, request: Request, caller: Caller) -> Any:
        """The other side: after the second request the connection is authenticated as that broker."""
        said, standing = bytes(request.body.auth_bytes), caller.standing
        if standing.challenged is None:
            if len(said) != _NAMES.size + CHALLENGE_BYTES:
                return _refused("an introduction opens with two broker ids and a challenge")
            names, theirs = said[: _NAMES.size], said[_NAMES.size :]
            if _NAMES.unpack(names)[1] != self._broker_id:
                return _refused(f"this is broker {self._broker_id}")
            own = self._randomness.randbytes(CHALLENGE_BYTES)
            standing.challenged = (names, theirs + own)
            return _taken(own + self._proof(b"asked", names, theirs + own))
        (names, challenges), standing.challenged = standing.challenged, None
        if not hmac.compare_digest(said, self._proof(b"asking", names, challenges)):
            return _refused("the proof was made with another secret than this cluster's")
        standing.broker_id = _NAMES.unpack(names)[0]
        return _taken(b"")

    def _proof(self, side: bytes, names: bytes, challenges: bytes) -> bytes:
        return hmac.digest(self._secret, side + names + challenges, "sha256")


async def _said(exchange: Exchange, content: bytes) -> bytes:
    body = SaslAuthenticateRequest(auth_bytes=content)
    answer = await exchange(ApiKey.SASL_AUTHENTICATE, SASL_AUTHENTICATE_VERSION, body)
    if answer.error_code:
        raise AuthenticationFailed(f"the introduction was refused: {answer.error_message}")
    return bytes(answer.auth_bytes or b"")


def _taken(content: bytes) -> Any:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.NONE, error_message=None, auth_bytes=content, session_lifetime_ms=0
    )


def _refused(why: str) -> Any:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=why, auth_bytes=b"", session_lifetime_ms=0
    )
