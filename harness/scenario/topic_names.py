"""Which topics a run may have: their names are legal ones of Kafka's, and none of its own internal topics; something is
in them."""

import re

from harness.history.facts.internal_topics import COORDINATORS_TOPICS
from harness.scenario.model import TopicSpec

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


def wrong_count(topic: TopicSpec) -> tuple[str, str, str] | None:
    """(The key, what is wrong, the remedy), or None. To Kafka, -1 is the brokers' own default (KIP-464)."""
    if topic.assignment is None and topic.partitions < 1:
        return "partitions", f"{topic.partitions} partitions", "a topic has at least 1"
    if topic.replication_factor is not None and topic.replication_factor < 1:
        return "replication_factor", f"{topic.replication_factor} replicas", "a partition has at least 1"
    return None
