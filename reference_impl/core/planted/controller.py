"""Planted flaws of the controller: whom it elects, what it takes of leaders, and who obeys it."""

from dataclasses import replace

from reference_impl.core.planted.flaw import Flaw, of_controller


def _any_epoch(epoch: int, known_epoch: int) -> bool:
    return True


def _never_renewed(broker_epoch: int, known_broker_epoch: int) -> bool:
    return False


def _always(is_sound: bool) -> bool:
    return True


def _fence_nobody(controller_epoch: int, known_epoch: int) -> bool:
    return False


def _same_epoch(leader_epoch: int) -> int:
    return max(leader_epoch, 0)


CONTROLLER = (
    Flaw(
        name="isr-of-any-epoch",
        part="requests",
        origin="M24, KIP-497",
        description="the controller takes changes of the ISR that start from an older state",
        apply=of_controller(lambda controller: replace(controller, is_current=_any_epoch)),
    ),
    Flaw(
        name="any-incarnation-joins",
        part="requests",
        origin="M27, KIP-903, KAFKA-14139",
        description="the controller lets a broker into the ISR by what an earlier life of it had fetched",
        apply=of_controller(lambda controller: replace(controller, may_join=_any_epoch)),
    ),
    Flaw(
        name="restarts-unnoticed",
        part="requests",
        origin="M29, KAFKA-7235",
        description="the controller does not notice that a broker came back as a new one",
        apply=of_controller(lambda controller: replace(controller, is_renewed=_never_renewed)),
    ),
    Flaw(
        name="always-unclean",
        part="replication",
        origin="M50, unclean.leader.election",
        description="leaders are elected outside the ISR, though it is not allowed",
        apply=of_controller(lambda controller: replace(controller, elects_unclean=_always)),
    ),
    Flaw(
        name="obey-deposed-controllers",
        part="requests",
        origin="M51, hazard",
        description="brokers obey a controller that has a successor",
        apply=lambda rules: replace(rules, fences_controller=_fence_nobody),
        hidden_by="R2, R38",
    ),
    Flaw(
        name="leaders-keep-the-epoch",
        part="replication",
        origin="M52, hazard",
        description="a new leader gets the epoch of the one before",
        apply=of_controller(lambda controller: replace(controller, next_epoch=_same_epoch)),
    ),
    Flaw(
        name="preferred-out-of-sync",
        part="replication",
        origin="M57, hazard",
        description="the preferred replica is made the leader though it is not in the ISR",
        apply=of_controller(lambda controller: replace(controller, may_be_preferred=_always)),
    ),
    Flaw(
        name="leaders-that-are-gone",
        part="replication",
        origin="M59, hazard",
        description="a broker that is gone may be elected",
        apply=of_controller(lambda controller: replace(controller, may_lead=_always)),
    ),
)
