"""For tests that use Testcontainers: the same cluster with the methods of their Kafka container.

Its nodes are processes on this machine, so that it needs no Docker engine and every fault works.
"""

from kafka_chaos_pytest.chaos import Chaos
from kafka_chaos_pytest.cluster import ChaosCluster


class KafkaChaosContainer(ChaosCluster):
    """`with KafkaChaosContainer() as kafka: kafka.get_bootstrap_server()`, and `kafka.chaos` for faults."""

    def __enter__(self) -> "KafkaChaosContainer":
        return self.start()

    def start(self) -> "KafkaChaosContainer":
        super().start()
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """The arguments are those of Testcontainers; nothing is left in any case."""
        super().stop()

    def get_bootstrap_server(self) -> str:
        return self.bootstrap

    @property
    def chaos(self) -> Chaos:
        return Chaos(self)
