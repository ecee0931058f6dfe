"""Whose code runs: every task and callback of a simulated run belongs to a machine, or to the harness.

It is a variable of the context, so whatever a machine's code begins belongs to that machine as well.
"""

import asyncio
import contextvars
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from harness.cluster.simulated.disks import NodeDisk

_Result = TypeVar("_Result")


@dataclass(frozen=True, kw_only=True, eq=False)
class Machine:
    """A node or a client. log: the file of what its code logs; None: it is told with the harness's own. disk: of a
    node."""

    name: str
    log: Path | None = None
    disk: "NodeDisk | None" = None


_PRESENT: contextvars.ContextVar[Machine | None] = contextvars.ContextVar("machine", default=None)


def machine_of(context: contextvars.Context | None = None) -> Machine | None:
    """Of that context, or of the code that asks. None: the harness's own."""
    return _PRESENT.get() if context is None else context.get(_PRESENT)


def context_on(machine: Machine) -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(_PRESENT.set, machine)
    return context


def begun_on(machine: Machine, work: Coroutine[Any, Any, _Result]) -> "asyncio.Task[_Result]":
    return asyncio.get_running_loop().create_task(work, context=context_on(machine))
