"""How brokers of one cluster know each other: both ends of a connection prove that they have read the same secret.

The secret is in a file (`chaos.cluster.secret.file`) that every node of the cluster is given and nobody else can read.
A connection from broker to broker opens with two SaslAuthenticate requests, Kafka's message for this (there is one way
to prove it, so none is negotiated before): names and challenges first, proofs then. Each proof is an HMAC over who asks
whom and both challenges, so the secret itself never travels, and a proof is worth nothing on another connection or to
another broker. Whatever is said in a broker's name (api.py) is believed only on a connection that was opened so, and
only in that broker's name; this is looked at once a connection and costs a comparison a request.

Another user of this machine can still open every listener and be served there as any client is: there are no ACLs. He
cannot fetch as a replica, and so not move a high watermark; he cannot shrink or grow an ISR, nor speak as a controller.
What this does not keep out: the coordination service asks nobody who he is, and brokers believe their cluster's books,
so whoever reaches it can change them (or register in a live broker's place, and pass on what is said through him).
Nothing is encrypted either: whoever may read or change what goes over the network interface (root) needs no secret.
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
from reference_impl.wire.messages import Request, request_class, response_class

SASL_AUTHENTICATE, SASL_AUTHENTICATE_VERSION = 36, 2
SECRET_BYTES_MIN = 16
CHALLENGE_BYTES = 32

SaslAuthenticateRequest = request_class(SASL_AUTHENTICATE)
SaslAuthenticateResponse = response_class(SASL_AUTHENTICATE)

_NAMES = struct.Struct(">ii")  # broker ids: who asks, and whom


class NotIntroduced(OSError):
    """The peer is no broker of this cluster, or not the one that was wanted, or does not take this one for one."""


def read_secret(path: Path) -> bytes:
    """Raises ConfigurationError for one that is missing, too short, or that others can read too."""
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
    """A file that its owner alone may read, from its first byte on."""
    path.touch(mode=stat.S_IRUSR | stat.S_IWUSR)
    path.write_text(secret + "\n", encoding="ascii")


class Introductions:
    """Both sides of it for one broker."""

    def __init__(self, secret: bytes, *, broker_id: int, randomness: Random) -> None:
        self._secret = secret
        self._broker_id = broker_id
        self._randomness = randomness

    async def introduce(self, exchange: Exchange, to: int) -> None:
        """To broker `to`, over a connection that was just opened. Raises NotIntroduced."""
        names, own = _NAMES.pack(self._broker_id, to), self._randomness.randbytes(CHALLENGE_BYTES)
        answer = await _said(exchange, names + own)
        challenges = own + answer[:CHALLENGE_BYTES]
        if not hmac.compare_digest(answer[CHALLENGE_BYTES:], self._proof(b"asked", names, challenges)):
            raise NotIntroduced(f"what answers for broker {to} does not know this cluster's secret")
        await _said(exchange, self._proof(b"asking", names, challenges))

    def answer(self, request: Request, caller: Caller) -> Any:
        """The other side: the caller's standing becomes that of a broker with the second request."""
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
    answer = await exchange(SASL_AUTHENTICATE, SASL_AUTHENTICATE_VERSION, body)
    if answer.error_code:
        raise NotIntroduced(f"the introduction was refused: {answer.error_message}")
    return bytes(answer.auth_bytes or b"")


def _taken(content: bytes) -> Any:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.NONE, error_message=None, auth_bytes=content, session_lifetime_ms=0
    )


def _refused(why: str) -> Any:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=why, auth_bytes=b"", session_lifetime_ms=0
    )
