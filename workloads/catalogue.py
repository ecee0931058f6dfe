"""The workloads by name. A new one is a file, its test, and a line here. "none" has no workers at all."""

from collections.abc import Callable, Mapping

from harness.interfaces import Workload
from workloads import produce_and_poll

WORKLOADS: Mapping[str, Callable[..., Workload]] = {
    produce_and_poll.ProduceAndPoll.name: produce_and_poll.make_workload,
}
NAMES = (*WORKLOADS, "none")
