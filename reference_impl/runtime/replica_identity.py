"""How a fetching replica says which incarnation it is. Fetch carries a broker epoch only from v15 on (KIP-903), and
this broker speaks v12, so the epoch travels in the client id: "replica-<broker id>-<broker epoch>". Which
broker it is the connection has proved before (introductions.py)."""

import re

_PATTERN = re.compile(r"replica-(\d+)-(\d+)")


def client_id_of(broker_id: int, broker_epoch: int) -> str:
    return f"replica-{broker_id}-{broker_epoch}"


def identity_in(client_id: str | None) -> tuple[int, int] | None:
    """(broker id, broker epoch), or None for anybody else."""
    found = _PATTERN.fullmatch(client_id or "")
    return (int(found[1]), int(found[2])) if found else None
