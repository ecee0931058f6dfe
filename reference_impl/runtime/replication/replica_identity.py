"""The incarnation of a fetching replica. Fetch carries a broker epoch only from v15 on (KIP-903), and this broker uses
v12, so the epoch is part of the client id: "replica-<broker id>-<broker epoch>".

The connection has proved the broker id before (broker_authentication.py).
"""

import re

_PATTERN = re.compile(r"replica-(\d+)-(\d+)")


def client_id_of(broker_id: int, broker_epoch: int) -> str:
    return f"replica-{broker_id}-{broker_epoch}"


def identity_in(client_id: str | None) -> tuple[int, int] | None:
    """Returns (broker id, broker epoch), or None if the client id is not a replica's."""
    found = _PATTERN.fullmatch(client_id or "")
    return (int(found[1]), int(found[2])) if found else None
