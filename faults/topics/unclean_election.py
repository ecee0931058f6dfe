"""An unclean election, as operators ask for it: a partition that nobody leads is led by whoever is left."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from faults.topics.preferred_election import PreferredElection
from harness.history.facts.step_facts import UNCLEAN_ELECTION


@dataclass(frozen=True, kw_only=True)
class UncleanElection(PreferredElection):
    """The same options. What such an election loses is permitted, for it was asked for."""

    name = "unclean-election"
    says = "a partition that nobody leads is led by a replica that may lack records"
    kind = UNCLEAN_ELECTION
    drawn_where = {"unclean.leader.election.enable": "true"}  # noqa: RUF012  # a ClassVar of Fault
    asks_for: ClassVar[Literal["preferred", "unclean"]] = "unclean"
    elects: ClassVar[str] = "a replica"
