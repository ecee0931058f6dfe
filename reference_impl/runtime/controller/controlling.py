"""The broker's controller role and the admin requests. Both are created again with each session of the coordination
service, because a controller term belongs to one session."""

import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Literal

from reference_impl.coordination.client import CoordinationClient, WatchEvent
from reference_impl.core.controller.controller_rules import ControllerRules
from reference_impl.runtime.config import BrokerConfig
from reference_impl.runtime.controller.controller import ControllerRole, ControllerSettings
from reference_impl.runtime.controller.link import BrokersLink
from reference_impl.runtime.handlers import api
from reference_impl.runtime.handlers.admin import TopicAdmin
from reference_impl.runtime.handlers.admin_configs import ConfigAdmin
from reference_impl.runtime.server import Caller, CloseConnection
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import Request

logger = logging.getLogger(__name__)

Handle = Callable[[Any, int], Awaitable[Any]]


class Controlling:
    def __init__(
        self,
        config: BrokerConfig,
        *,
        rules: ControllerRules,
        brokers: BrokersLink,
        randomness: Random,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self.role: ControllerRole | None = None
        self._config = config
        self._brokers = brokers
        self._randomness = randomness
        self._wall_clock_ms = wall_clock_ms
        self._topics: TopicAdmin | None = None
        self._configs = ConfigAdmin(broker_id=config.broker_id, coordination=None, properties=config.properties)
        self._settings = ControllerSettings(
            unclean_leader_election_enable=config.unclean_leader_election_enable,
            auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
            leader_imbalance_check_interval_seconds=config.leader_imbalance_check_interval_seconds,
            leader_imbalance_per_broker_percentage=config.leader_imbalance_per_broker_percentage,
            default_replication_factor=config.default_replication_factor,
            num_partitions=config.num_partitions,
            rules=rules,
        )

    def handlers(self) -> dict[int, api.Handler]:
        return {
            ApiKey.ALTER_PARTITION: self._by(lambda: self._present_role.handle_alter_partition),
            ApiKey.CONTROLLED_SHUTDOWN: self._by(lambda: self._present_role.handle_controlled_shutdown),
            ApiKey.CREATE_TOPICS: self._by(lambda: self._present_topics.handle_create_topics),
            ApiKey.DELETE_TOPICS: self._by(lambda: self._present_topics.handle_delete_topics),
            ApiKey.CREATE_PARTITIONS: self._by(lambda: self._present_topics.handle_create_partitions),
            ApiKey.ELECT_LEADERS: self._by(lambda: self._present_topics.handle_elect_leaders),
            ApiKey.DESCRIBE_CONFIGS: self._by(lambda: self._configs.handle_describe_configs),
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self._by(lambda: self._configs.handle_incremental_alter_configs),
        }

    @staticmethod
    def _by(find: Callable[[], Handle]) -> api.Handler:
        def handler(request: Request, caller: Caller) -> Awaitable[Any]:
            return find()(request.body, request.api_version)

        return handler

    @property
    def _present_role(self) -> ControllerRole:
        if self.role is None:
            raise CloseConnection("this broker has no session with the coordination service")
        return self.role

    @property
    def _present_topics(self) -> TopicAdmin:
        if self._topics is None:
            raise CloseConnection("this broker has no session with the coordination service")
        return self._topics

    # Sessions

    async def begin(self, client: CoordinationClient) -> None:
        """Starts a new session: competes for the controller role in it."""
        await self.end()
        self._configs.coordination = client
        self.role = ControllerRole(
            broker_id=self._config.broker_id,
            coordination=client,
            settings=self._settings,
            send=self._brokers,
            log=logging.getLogger("reference_impl.controller"),
            chance=self._randomness,
            wall_ms=self._wall_clock_ms,
        )
        if self._topics is None:
            self._topics = TopicAdmin(role=self.role, properties=self._config.properties)
        self._topics.role = self.role
        await self.role.start()

    async def end(self) -> None:
        role, self.role = self.role, None
        self._configs.coordination = None
        if role is not None:
            await role.stop()

    def on_watch(self, event: WatchEvent) -> None:
        if self.role is not None:
            self.role.on_watch(event)

    def on_session(self, kind: Literal["connected", "disconnected", "expired"]) -> None:
        if self.role is not None:
            self.role.on_session(kind)
