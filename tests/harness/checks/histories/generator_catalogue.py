"""Every planter: those of the log, of clients, of groups and of processors."""

from tests.harness.checks.histories import generator_client_planters, generator_group_planters, generator_planters

__all__ = ["PLANTERS"]

assert generator_client_planters  # they register their planters when they are imported
assert generator_group_planters
PLANTERS = generator_planters.PLANTERS
