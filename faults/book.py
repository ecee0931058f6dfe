"""The functions through which the controller's plans use the faults, which the controller does not import."""

from faults import catalogue, links, plan, targets, triggers
from harness.ports.faults import FaultBook

BOOK = FaultBook(
    of_schedule=catalogue.of_schedule,
    of_step=catalogue.of_step,
    is_fault=catalogue.is_fault,
    resolve=targets.resolve,
    by_role=targets.by_role,
    named=links.named,
    trigger=triggers.parse,
    written_out=plan.written_out,
)
