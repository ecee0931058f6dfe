"""Which older generation a commit may carry: in a transaction, by release and protocol, and after the member itself was
told a later one."""

from typing import Any

from tests.harness.checks.histories.build import SECOND
from tests.outsiders.groups import group_of
from tests.outsiders.history_builder import PASS, VIOLATION, HistoryBuilder, case

OLD, NEW = 11, 12
ALSO = ("group-redelivery observation",)
ZOMBIE = {"zombie-commit violation": 1}
WHY_OLD = "a commit of a former generation has to be refused"


def _group(*, protocol: str | None, system: str, reset: str = "earliest") -> HistoryBuilder:
    history = group_of(OLD, NEW, protocol=protocol, system=system, reset=reset)
    history.group("assigned", at=8, process=OLD, generation=1, offset=0)
    history.reads(OLD, range(4), at=8.5)
    return history


# ---- in transactions ------------------------------------------------------------------------------------------------


def _to_a_transaction(
    *, system: str = "kafka:4.3.1", version: int | None = None, outcome: int = 0, generation: int | None = 1
) -> HistoryBuilder:
    """OLD of generation 1 sends its offset to a transaction after generation 2 gave the partition to NEW."""
    history = _group(protocol="classic", system=system, reset="latest")  # what came of the inputs is no matter here
    if version is not None:
        history._add(
            "client_events",
            process=OLD,
            time_ns=9 * SECOND,
            event="request",
            node=1,
            request="TxnOffsetCommit",
            version=version,
        )
    history.group("assigned", at=12, process=NEW, generation=2, offset=0)
    history.transaction(0, outcome, at=16, until=18, process=OLD, group="g")
    history.group("committed", at=17, process=OLD, generation=generation, offset=4, transaction=0, status=outcome)
    return history.finish()


@case("the offsets of a former generation are committed by a transaction", VIOLATION, ZOMBIE, also=ALSO, why=WHY_OLD)
def transaction_of_an_old_generation() -> HistoryBuilder:
    return _to_a_transaction()


@case("the same, and the request named its member", VIOLATION, ZOMBIE, also=ALSO, why=WHY_OLD)
def transaction_that_names_its_member() -> HistoryBuilder:
    return _to_a_transaction(version=3)


@case(
    "the same, in a version of the request that has no room for the member",
    PASS,
    also=ALSO,
    why="before KIP-447 offsets in a transaction are fenced by the producer alone",
)
def transaction_that_cannot_name_its_member() -> HistoryBuilder:
    return _to_a_transaction(version=2)


@case("the same, on a release before KIP-447", PASS, {}, also=ALSO, why="no request of it names a member")
def transaction_before_kip_447() -> HistoryBuilder:
    return _to_a_transaction(system="kafka:2.4.1")


@case("the same, on the first release with KIP-447", VIOLATION, ZOMBIE, also=ALSO, why=WHY_OLD)
def transaction_since_kip_447() -> HistoryBuilder:
    return _to_a_transaction(system="kafka:2.5.0")


@case("the same, and the request named nobody", PASS, {}, also=ALSO, why="that is always lawful in a transaction")
def transaction_without_a_member() -> HistoryBuilder:
    return _to_a_transaction(generation=-1)


@case("the same, and the transaction was aborted", PASS, {}, also=ALSO, why="nobody knows that it was taken")
def aborted_transaction_of_an_old_generation() -> HistoryBuilder:
    return _to_a_transaction(outcome=1)


# ---- the member's own later epoch -----------------------------------------------------------------------------------


def _own_later(
    *, protocol: str | None, system: str = "kafka:4.3.1", revoked: bool = False, again: int = 1
) -> HistoryBuilder:
    """OLD has t-0 since generation 1, is told t-`again` in generation 2, and commits t-0 in generation 1."""
    history = _group(protocol=protocol, system=system)
    if revoked:
        history.group("revoked", at=11, process=OLD, generation=1)
    history.group("assigned", at=12, process=OLD, generation=2, partition_id=again)
    return history.group("committed", at=14, process=OLD, generation=1, offset=4).finish()


@case("a member commits in generation 1 after it was told generation 2", VIOLATION, ZOMBIE, why=WHY_OLD)
def own_later_generation() -> HistoryBuilder:
    return _own_later(protocol="classic")


@case(
    "KIP-848 before KIP-1251: a member commits with an epoch below its own",
    VIOLATION,
    ZOMBIE,
    why="until 4.3 the epoch of a commit has to be the member's",
)
def own_later_epoch_before_kip_1251() -> HistoryBuilder:
    return _own_later(protocol="consumer", system="kafka:4.2.0")


@case(
    "the same since KIP-1251, for a partition that it has had since the older epoch",
    PASS,
    why="an epoch between that of the assignment and the member's is accepted since 4.3",
)
def own_later_epoch() -> HistoryBuilder:
    return _own_later(protocol="consumer")


@case(
    "the same, and it is told the partition anew without having given it up",
    PASS,
    why="it has had the partition since the older epoch",
)
def own_later_epoch_repeated() -> HistoryBuilder:
    return _own_later(protocol="consumer", again=0)


@case(
    "since KIP-1251: it gave the partition up and was assigned it again in the later epoch",
    VIOLATION,
    ZOMBIE,
    why="the commit's epoch is below that of the partition's assignment",
)
def own_later_epoch_of_the_partition() -> HistoryBuilder:
    return _own_later(protocol="consumer", revoked=True, again=0)


@case(
    "it is not known by which protocol, nor on which release, a member commits below its own epoch",
    PASS,
    why="where members have epochs of their own, that may be lawful",
)
def own_later_epoch_of_an_unknown_protocol() -> HistoryBuilder:
    return _own_later(protocol=None, system="reference")


def _behind(**more: Any) -> HistoryBuilder:
    """KIP-848: OLD gave t-0 up for epoch 2; NEW has it in epoch 3; OLD, in epoch 2, commits it."""
    history = _group(**more).group("revoked", at=10, process=OLD, generation=1)
    history.group("assigned", at=11, process=OLD, generation=2, partition_id=1)
    history.group("assigned", at=13, process=NEW, generation=3, offset=0)
    return history.group("committed", at=14, process=OLD, generation=2, offset=4).finish()


@case(
    "KIP-848: a member that gave a partition up commits it in its own present epoch, while others are in a later one",
    PASS,
    {"zombie-commit observation": 1},
    also=ALSO,
    why="its epoch is its own, and nobody checks who owns a partition",
)
def present_epoch_behind_others() -> HistoryBuilder:
    return _behind(protocol="consumer", system="kafka:4.3.1")


@case("classic: the same", VIOLATION, ZOMBIE, also=ALSO, why="a generation is the whole group's")
def former_generation_behind_others() -> HistoryBuilder:
    return _behind(protocol="classic", system="kafka:4.3.1")
