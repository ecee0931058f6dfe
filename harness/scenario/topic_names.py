"""Which names a topic of a run may have: the legal ones of Kafka, without those of Kafka's own internal topics."""

import re

from harness.history.facts.internal_topics import COORDINATORS_TOPICS

METADATA_TOPIC = "__cluster_metadata"  # the quorum's own log: every node has it, but it is not a topic's replica
# Kafka's internal topics, to which brokers and controllers write and no client of a run does.
INTERNAL_TOPICS = (METADATA_TOPIC, *COORDINATORS_TOPICS, "__share_group_state")
LEGAL_NAMES = "letters, digits, '.', '_' and '-' are allowed, up to 249"
_LEGAL = re.compile(r"[A-Za-z0-9._-]{1,249}")


def is_legal(name: str) -> bool:
    """Kafka's Topic.validate."""
    return bool(_LEGAL.fullmatch(name)) and name not in (".", "..")


def wrong_name(name: str) -> tuple[str, str] | None:
    """(What is wrong, the remedy), or None."""
    if not is_legal(name):
        return "no name of a topic", LEGAL_NAMES
    if name in INTERNAL_TOPICS:
        return (
            "an internal topic of Kafka's: brokers write to it, so its records cannot be judged as what clients sent",
            "leave it out; groups and transactions use it without being told",
        )
    return None
