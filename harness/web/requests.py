"""Which requests are answered, and which file below the folder a path means.

A page on the internet can make the user's browser ask this server by a name that leads to loopback (DNS rebinding), so
a request is answered only under an address or under "localhost", or under a name that was allowed. Other users of the
machine can reach loopback, too: every path begins with a word that only whoever started the server was told.

A stored page may have been written by somebody else, and what it can find out it can give away: its own address above
all. So it has an address with another word, made for that page, which opens that page and nothing else.
"""

import base64
import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs, quote, unquote_to_bytes

TARGET_MAX = 4096  # characters of a request's path and query
_PORT = re.compile(r"[0-9]{1,5}")
_PLAIN = re.compile(r"[!-~]+")  # printable ASCII without the space: all that a browser sends
_FIELDS_MAX = 20
_MARK_LENGTH = 22  # characters of base64: 132 bits


Reach = Literal["all", "page", "link"]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A path below a word, decoded once: ("files", "20261123-run", "report.html").

    reach: "all" below the secret word; "page" below the word of the page that is asked for; "link" below the word of
    another page, from which a link led here.
    """

    parts: tuple[str, ...]
    query: dict[str, str] = field(default_factory=dict)
    reach: Reach = "all"


class Words:
    """The words by which one server is asked; none of them can be guessed, or found from the others."""

    def __init__(self) -> None:
        self.secret = secrets.token_urlsafe(16)
        self._key = secrets.token_bytes(32)

    def of_page(self, place: Sequence[str]) -> str:
        """For the stored page at `place`: a mark of the place, and one that shows the first to be ours."""
        own = self._mark("place", joined(place))
        return own + self._mark("mark", own)

    def reach(self, word: str, parts: Sequence[str]) -> Reach | None:
        """What the word opens of the path behind it."""
        if hmac.compare_digest(word.encode(), self.secret.encode()):
            return "all"
        if hmac.compare_digest(word.encode(), self.of_page(parts).encode()):
            return "page"
        own, proof = word[:_MARK_LENGTH], word[_MARK_LENGTH:]
        return "link" if hmac.compare_digest(proof.encode(), self._mark("mark", own).encode()) else None

    def _mark(self, kind: str, text: str) -> str:
        digest = hmac.digest(self._key, f"{kind} {text}".encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode()[:_MARK_LENGTH]


def asked(target: str, *, words: Words) -> Asked | None:
    """None for all that is none of our paths: there is nothing there, whatever was meant."""
    if len(target) > TARGET_MAX or not _PLAIN.fullmatch(target) or not target.startswith("/"):
        return None
    path, _, query = target.partition("?")
    first, *rest = path[1:].split("/")
    if rest and rest[-1] == "":
        rest = rest[:-1]
    parts = [part for part in map(_decoded, rest) if part is not None]
    reach = words.reach(first, parts)
    if reach is None or len(parts) < len(rest):
        return None
    try:
        given = parse_qs(query, max_num_fields=_FIELDS_MAX, errors="strict")
    except ValueError:
        return None
    return Asked(parts=tuple(parts), query={key: values[-1] for key, values in given.items()}, reach=reach)


def can_be_asked_for(place: Sequence[str]) -> bool:
    """Whether a path can name this file or folder; what others wrote may have any name."""
    return all(map(_is_name, place)) and len(quote(joined(place))) < TARGET_MAX // 2


def _decoded(part: str) -> str | None:
    """A name of one file or folder; None for what is none, or leads elsewhere, or is hidden."""
    try:
        name = unquote_to_bytes(part).decode("utf-8")
    except UnicodeDecodeError:
        return None
    return name if _is_name(name) else None


def _is_name(name: str) -> bool:
    return bool(name) and not name.startswith(".") and not any(c in "/\\" or not c.isprintable() for c in name)


def host_is_ours(host: str | None, names: Collection[str] = ()) -> bool:
    """Whether a Host header names this server by an address, as "localhost", or by one of `names`."""
    if not host:
        return False
    name, colon, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not colon:
        name = host
    elif not _PORT.fullmatch(port):
        return False
    if name.lower() in ("localhost", *(each.lower() for each in names)):
        return True
    bracketed = name.startswith("[") and name.endswith("]")
    try:
        address = ipaddress.ip_address(name[1:-1] if bracketed else name)
    except ValueError:
        return False
    return (address.version == 6) == bracketed


def joined(parts: Sequence[str]) -> str:
    """As FilesBelow names files. `parts` are names: `asked` made them."""
    return "/".join(parts)
