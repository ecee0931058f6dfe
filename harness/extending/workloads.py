"""For a workload: entry point `kafka_chaos.workloads`, a class that derives from WorkloadSettings."""

from harness.history.facts.values import encode as value_of
from harness.ports.clients import ClientUse
from harness.ports.cluster import (
    Client,
    ClientFactory,
    Event,
    Journal,
    ReadRecord,
    Send,
    SendOutcome,
    TopicPartition,
    Workload,
)
from harness.ports.load import LoadFacts
from harness.ports.membership import GroupClient, GroupEvent, GroupJournal, TransactionalClient, TransactionEnd
from harness.ports.workload import WorkloadSettings
from harness.values import Acks, Count, Seconds, Share

__all__ = [
    "Acks",
    "Client",
    "ClientFactory",
    "ClientUse",
    "Count",
    "Event",
    "GroupClient",
    "GroupEvent",
    "GroupJournal",
    "Journal",
    "LoadFacts",
    "ReadRecord",
    "Seconds",
    "Send",
    "SendOutcome",
    "Share",
    "TopicPartition",
    "TransactionEnd",
    "TransactionalClient",
    "Workload",
    "WorkloadSettings",
    "value_of",
]
