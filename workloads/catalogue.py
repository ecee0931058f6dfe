"""The workloads by name. A new one is a file, its test, and a line here. "none" has no workers at all."""

from collections.abc import Callable, Mapping

from harness.interfaces import Workload
from workloads import consumer_groups, produce_and_poll, transactions

WORKLOADS: Mapping[str, Callable[..., Workload]] = {
    produce_and_poll.ProduceAndPoll.name: produce_and_poll.make_workload,
    consumer_groups.ConsumerGroups.name: consumer_groups.make_workload,
    transactions.Processor.name: transactions.make_workload,
}
NAMES = (*WORKLOADS, "none")
