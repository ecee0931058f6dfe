"""A workload: its settings, as a scenario's [workload] gives them, and what each of its clients does.

A workload is a frozen dataclass that derives from `WorkloadSettings`. Its fields are its keys, beside those that every
load has: each has a default, and its type says how it is read (harness/values.py). `facts` gives others
what they must know of the load, `check` refuses settings that do not fit together, and `make_worker` makes what one
client does.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from harness.ports.cluster import TopicPartition, Workload
from harness.ports.load import LoadFacts, WorkloadSpec


@dataclass(frozen=True, kw_only=True)
class WorkloadSettings(WorkloadSpec, ABC):
    """The settings of one workload in one scenario. `name` is a class variable: what [workload] calls it."""

    @property
    @abstractmethod
    def facts(self) -> LoadFacts: ...

    @abstractmethod
    def make_worker(self, *, role: str, place: int, places: int, partitions: Sequence[TopicPartition]) -> Workload:
        """What one client does: the place-th, from 0, of `places` in a role of `facts.clients`.

        `partitions`: all that the load goes to.
        """
