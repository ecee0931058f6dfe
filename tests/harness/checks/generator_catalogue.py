"""Every planter, those of the log and those of groups, transactions and timestamps."""

from tests.harness.checks import generator_client_planters, generator_planters

__all__ = ["PLANTERS"]

assert generator_client_planters  # it registers its planters when it is imported
PLANTERS = generator_planters.PLANTERS
