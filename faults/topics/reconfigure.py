"""A changed configuration: a topic has other settings for a while."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from harness.errors import HarnessError
from harness.ports.cluster import CanReconfigure, Cluster, Evidence
from harness.ports.faults import Fault, NothingToStrike, Struck
from harness.values import settings_table

Settings = Annotated[Mapping[str, str], settings_table]


@dataclass(frozen=True, kw_only=True)
class Reconfigure(Fault):
    """settings: those in force meanwhile. afterwards: those set when it ends. topic "": the scenario's first."""

    name = "reconfigure"
    says = "a topic has other settings for a while"
    kind = "reconfiguration"
    needs = (CanReconfigure,)
    may_hit = ()
    each_apart = False
    topic: str = ""
    settings: Settings = field(default_factory=dict)
    afterwards: Settings = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.settings or not self.afterwards:
            raise ValueError(
                'give both: settings = { "min.insync.replicas" = 1 }, afterwards = { "min.insync.replicas" = 2 }'
            )

    @classmethod
    def drawn(cls, chance: random.Random) -> Mapping[str, Any]:
        settings = chance.choice(({"min.insync.replicas": "1"}, {"unclean.leader.election.enable": "true"}))
        usual = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
        return {"settings": dict(settings), "afterwards": {key: usual[key] for key in settings}}

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        try:
            return await self._set(cluster, struck, self.settings)
        except HarnessError as unanswered:
            raise NothingToStrike(f"nobody answers who could change settings: {unanswered}") from unanswered

    async def end(self, cluster: Cluster, struck: Struck) -> Evidence:
        return await self._set(cluster, struck, self.afterwards)

    async def _set(self, cluster: Cluster, struck: Struck, settings: Mapping[str, str]) -> Evidence:
        assert isinstance(cluster, CanReconfigure)
        topic = self.topic or struck.topics[0]
        await cluster.set_topic_config(topic, settings)
        words = ", ".join(f"{key}={value}" for key, value in settings.items())
        return struck.seen(f"topic {topic} was set to {words}")
