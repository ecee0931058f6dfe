"""Faults in the Kafka cluster of your own tests, and a verdict on what became of your application's records.

Light: it imports nothing but pytest and the standard library, starts the command `kafka-chaos` as a process, and
speaks to it over its control socket (docs/control.md).
"""

from kafka_chaos_pytest.chaos import Chaos, Fault, Recording
from kafka_chaos_pytest.cluster import ChaosCluster
from kafka_chaos_pytest.container import KafkaChaosContainer
from kafka_chaos_pytest.control import Control
from kafka_chaos_pytest.errors import ChaosError, Findings
from kafka_chaos_pytest.flow import Flow
from kafka_chaos_pytest.roles import Role, anybody, broker, controller, everybody, followers, isr, leader

__all__ = [
    "Chaos",
    "ChaosCluster",
    "ChaosError",
    "Control",
    "Fault",
    "Findings",
    "Flow",
    "KafkaChaosContainer",
    "Recording",
    "Role",
    "anybody",
    "broker",
    "controller",
    "everybody",
    "followers",
    "isr",
    "leader",
]
