"""Which requests are answered, and which file below the folder a path means.

A page on the internet can make the user's browser ask this server by a name that leads to loopback (DNS rebinding), so
a request is answered only under an address or under "localhost", or under a name that was allowed. Other users of the
machine can reach loopback, too: every path begins with a word that only whoever started the server was told.
"""

import hmac
import ipaddress
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote_to_bytes

TARGET_MAX = 4096  # characters of a request's path and query
_PORT = re.compile(r"[0-9]{1,5}")
_PLAIN = re.compile(r"[!-~]+")  # printable ASCII without the space: all that a browser sends
_FIELDS_MAX = 20


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A path below the secret word, decoded once: ("files", "20261123-run", "report.html")."""

    parts: tuple[str, ...]
    query: dict[str, str] = field(default_factory=dict)


def asked(target: str, *, secret: str) -> Asked | None:
    """None for all that is none of our paths: there is nothing there, whatever was meant."""
    if len(target) > TARGET_MAX or not _PLAIN.fullmatch(target) or not target.startswith("/"):
        return None
    path, _, query = target.partition("?")
    first, *rest = path[1:].split("/")
    if not hmac.compare_digest(first.encode(), secret.encode()):
        return None
    if rest and rest[-1] == "":
        rest = rest[:-1]
    parts = [_decoded(each) for each in rest]
    if any(part is None for part in parts):
        return None
    try:
        given = parse_qs(query, max_num_fields=_FIELDS_MAX, errors="strict")
    except ValueError:
        return None
    return Asked(
        parts=tuple(part for part in parts if part is not None),
        query={key: values[-1] for key, values in given.items()},
    )


def _decoded(part: str) -> str | None:
    """A name of one file or folder; None for what is none, or leads elsewhere, or is hidden."""
    try:
        name = unquote_to_bytes(part).decode("utf-8")
    except UnicodeDecodeError:
        return None
    if not name or name.startswith(".") or any(each in "/\\" or not each.isprintable() for each in name):
        return None
    return name


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
