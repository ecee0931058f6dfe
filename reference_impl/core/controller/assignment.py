"""Places the replicas of new partitions: round robin from a start that the caller draws, or as the request says."""

from collections.abc import Collection, Mapping, Sequence

from reference_impl.core.identifiers import TOPIC_NAME_LENGTH_MAX, ErrorCode, is_topic_name

PARTITIONS_PER_REQUEST_MAX = 10_000  # as in Kafka's controller
Assignment = tuple[tuple[int, ...], ...]  # the replicas of partition 0, 1, 2..., in order


class RefusedRequestError(Exception):
    """The request cannot be executed; carries the error code and the message for the client."""

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


def check_request(partitions: int) -> None:
    """Checks all partitions of a request before the first of them is created. Raises RefusedRequestError."""
    if partitions > PARTITIONS_PER_REQUEST_MAX:
        raise RefusedRequestError(
            ErrorCode.POLICY_VIOLATION,
            f"Excessively large number of partitions per request: {partitions}, at most {PARTITIONS_PER_REQUEST_MAX}."
            " Ask in several requests.",
        )


def round_robin(
    brokers: Collection[int], *, partitions: int, replication_factor: int, start: int, shift: int = 0, first: int = 0
) -> Assignment:
    """Assigns first replicas round robin from broker index `start`. The distance of the other replicas grows with each
    round, so that the followers of one broker's partitions are spread over all brokers (as in Kafka's AdminUtils).
    `first` is the number of the first new partition, so that partitions added to a topic continue its sequence."""
    assert start >= 0
    assert shift >= 0
    assert first >= 0
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
    """Returns the assignment of the request if it can be executed. Raises RefusedRequestError."""
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
    """Returns the replicas of the partitions that a topic gets when it grows to `count`; existing ones
    stay in place."""
    assert existing, "a topic has at least one partition"
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
