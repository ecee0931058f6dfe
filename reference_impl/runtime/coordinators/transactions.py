"""The transaction coordinators of this broker: one for each partition of __transaction_state that it leads."""

from reference_impl.core.coordinator_log import load_from_log_start
from reference_impl.core.identifiers import TRANSACTIONS_TOPIC
from reference_impl.core.transactions.coordinator import TransactionCoordinator
from reference_impl.core.transactions.transaction_data import TransactionSettings
from reference_impl.core.transactions.transaction_rules import TransactionRules
from reference_impl.runtime.config import BrokerConfig
from reference_impl.runtime.coordinators.log import PartitionTermLog
from reference_impl.runtime.coordinators.markers import MarkerSender
from reference_impl.runtime.coordinators.terms import CoordinatorTerms
from reference_impl.runtime.handlers.metadata import MetadataCache
from reference_impl.runtime.replication.replica_manager import ReplicaManager


def transaction_settings(config: BrokerConfig) -> TransactionSettings:
    return TransactionSettings(
        max_timeout_ms=config.transaction_max_timeout_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
    )


class TransactionCoordinators(CoordinatorTerms[TransactionCoordinator]):
    def __init__(
        self,
        *,
        config: BrokerConfig,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        markers: MarkerSender,
        rules: TransactionRules,
    ) -> None:
        settings = transaction_settings(config)

        def begin(number: int, log: PartitionTermLog) -> TransactionCoordinator:
            return TransactionCoordinator(log, markers.of_term(), clock=replicas, settings=settings, rules=rules)

        super().__init__(
            TRANSACTIONS_TOPIC, replicas=replicas, metadata=metadata, begin=begin, loads_from=load_from_log_start
        )

    def abort_timed_out(self) -> None:
        for coordinator in self.all():
            coordinator.abort_timed_out()
