"""Where the replicas of new partitions go: round robin from a start the caller draws, or as the request says."""

from collections.abc import Collection, Mapping, Sequence

from reference_impl.core.identifiers import TOPIC_NAME_LENGTH_MAX, ErrorCode, is_topic_name

Assignment = tuple[tuple[int, ...], ...]  # replicas, in order, of partition 0, 1, 2...


class RefusedRequestError(Exception):
    """A request the cluster does not carry out, with the code and the sentence its sender gets."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def check_topic_name(name: str) -> None:
    if not is_topic_name(name):
        raise RefusedRequestError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic name {name!r} is illegal: 1 to {TOPIC_NAME_LENGTH_MAX} of the characters a-z A-Z 0-9 . _ -",
        )


def round_robin(
    brokers: Collection[int], *, partitions: int, replication_factor: int, start: int, shift: int = 0, first: int = 0
) -> Assignment:
    """First replicas go around the brokers from `start`; the others follow at a distance that grows with each round,
    so that the followers of one broker's partitions are not all on its neighbour. `first` is the number of the first
    partition: those added to a topic go on where its others ended."""
    if partitions < 1:
        raise RefusedRequestError(ErrorCode.INVALID_PARTITIONS, f"{partitions} partitions: must be at least 1")
    if replication_factor < 1:
        raise RefusedRequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"replication factor {replication_factor}: must be at least 1"
        )
    count = len(brokers)
    if replication_factor > count:
        raise RefusedRequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} is larger than the number of live brokers, {count}",
        )
    ring = sorted(brokers)
    assignment = []
    for partition in range(first, first + partitions):
        leader = (start + partition) % count
        distance = shift + partition // count
        followers = [
            ring[(leader + 1 + (distance + position) % (count - 1)) % count]
            for position in range(replication_factor - 1)
        ]
        assignment.append((ring[leader], *followers))
    return tuple(assignment)


def explicit(wanted: Mapping[int, Sequence[int]], *, known: Collection[int], live: Collection[int]) -> Assignment:
    """The assignment of the request, when it can be carried out."""
    if sorted(wanted) != list(range(len(wanted))):
        raise _refused_assignment(f"partitions {sorted(wanted)} are not numbered 0, 1, 2...")
    sizes = {len(replicas) for replicas in wanted.values()}
    if sizes == {0} or len(sizes) != 1:
        raise _refused_assignment("every partition needs the same number of replicas, at least 1")
    for partition, replicas in sorted(wanted.items()):
        _check_replicas(partition, replicas, known=known, live=live)
    return tuple(tuple(wanted[partition]) for partition in range(len(wanted)))


def added(
    existing: Sequence[Sequence[int]],
    *,
    count: int,
    wanted: Sequence[Sequence[int]] | None,
    known: Collection[int],
    live: Collection[int],
) -> Assignment:
    """The replicas of the partitions a topic gets when it grows to `count`; those it has stay where they are."""
    more = count - len(existing)
    if more <= 0:
        raise RefusedRequestError(
            ErrorCode.INVALID_PARTITIONS, f"the topic has {len(existing)} partitions: {count} would not be an increase"
        )
    factor = len(existing[0])
    if wanted is None:
        ring = sorted(live)
        start = ring.index(existing[0][0]) if existing[0][0] in ring else 0
        return round_robin(live, partitions=more, replication_factor=factor, start=start, first=len(existing))
    if len(wanted) != more:
        raise _refused_assignment(f"{more} partitions are added, {len(wanted)} are assigned")
    for partition, replicas in enumerate(wanted, start=len(existing)):
        if len(replicas) != factor:
            raise _refused_assignment(f"partition {partition}: replicas {list(replicas)}; the others have {factor}")
        _check_replicas(partition, replicas, known=known, live=live)
    return tuple(map(tuple, wanted))


def _check_replicas(partition: int, replicas: Sequence[int], *, known: Collection[int], live: Collection[int]) -> None:
    if len(set(replicas)) != len(replicas):
        raise _refused_assignment(f"partition {partition}: replicas {list(replicas)} name a broker twice")
    unknown = sorted(set(replicas) - set(known))
    if unknown:
        raise _refused_assignment(f"partition {partition}: no broker {unknown[0]} is registered")
    if not set(replicas) & set(live):
        raise _refused_assignment(f"partition {partition}: none of the brokers {list(replicas)} is alive")


def _refused_assignment(message: str) -> RefusedRequestError:
    return RefusedRequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
