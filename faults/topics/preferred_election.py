"""A preferred election, as operators and Kafka's own balancing ask for it: a partition's first replica leads again."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.errors import HarnessError
from harness.ports.cluster import CanReconfigure, Cluster, Evidence
from harness.ports.faults import Fault, NothingToStrike, Struck

_NOT_NEEDED = 84


@dataclass(frozen=True, kw_only=True)
class PreferredElection(Fault):
    """topic "": the scenario's first. It is over by itself; one that elects nobody is skipped."""

    name = "preferred-election"
    says = "a partition's first replica is asked to lead again"
    kind = "election"
    needs = (CanReconfigure,)
    may_hit = ()
    each_apart = False
    asks_for: ClassVar[Literal["preferred", "unclean"]] = "preferred"
    elects: ClassVar[str] = "the first replica"
    topic: str = ""
    partition: int = 0

    @property
    def lasts_s(self) -> float:
        return 0.0

    async def begin(self, cluster: Cluster, struck: Struck) -> Evidence:
        assert isinstance(cluster, CanReconfigure)
        topic = self.topic or struck.topics[0]
        try:
            error = await cluster.elect(topic, self.partition, kind=self.asks_for)
        except HarnessError as unanswered:
            raise NothingToStrike(f"nobody answers who could elect: {unanswered}") from unanswered
        if error not in (0, _NOT_NEEDED):
            raise NothingToStrike(
                f"the {self.asks_for} election of {topic}/{self.partition} is answered with error {error}"
            )
        seen = f"{self.elects} {'leads already' if error else 'was elected'}"
        return struck.seen(f"{self.asks_for} election of {topic}/{self.partition}: {seen}")

    async def end(self, cluster: Cluster, struck: Struck) -> Evidence:
        return struck.seen("an election is over when it is answered")
