"""What settings have brokers do to their logs: retention by leaders, compaction by each replica for itself.

A policy counts as a broker has heard of it. A record may go while its topic compacts, if a later one of its key stands
below the high watermark and outside the active segment (KIP-58 asks for no more by default). Its offset stays empty.
Flaws, by name, are what a broker does although no Kafka must.
"""

from tests.world.brokers import Broker
from tests.world.chronicle import Compacted, Entry
from tests.world.replica import Replica
from tests.world.world import MS, World

COMPACT, DELETE = "compact", "delete"
SEGMENT = 6  # batches
EMPTY = -1  # the value at an offset whose record was compacted


def tidy(world: World, broker: Broker, replica: Replica) -> None:
    if world.setup.settings_change and replica.leading:
        expire(world, broker, replica)
    if world.setup.policies:
        clean(world, broker, replica)


def expire(world: World, broker: Broker, replica: Replica) -> None:
    """Retention, of whole segments below the high watermark, by the time at which records were appended."""
    deletes = not world.policies or DELETE in world.policies[replica.partition[0]][-1][1]
    retention = world.retention_ns.get(replica.partition[0])
    unasked = retention is None and world.flawed("retention-unasked", 0.02)
    limit = world.now - (retention if retention is not None else 2_000 * MS)
    if not deletes or (retention is None and not unasked):
        return
    to = replica.start
    for first in replica.batches[::SEGMENT][1:]:
        if first > replica.high_watermark or replica.times.get(first - 1, world.now) >= limit:
            break
        to = first
    broker.remove_below(replica.partition, to, asked=not unasked)


def heard_policy(world: World, broker: Broker, topic: str) -> str:
    """A broker hears of a change from the controller, a moment later; one that is cut off stays with the old value."""
    known = broker.policies.get(topic, world.policies[topic][0][1])
    if not broker.silent:
        late = world.now - 150 * MS
        known = [value for since, value in world.policies[topic] if since <= late or since == 0][-1]
        broker.policies[topic] = known
    return known


def clean(world: World, broker: Broker, replica: Replica) -> None:
    """One pass of the cleaner over one replica."""
    compacts = COMPACT in heard_policy(world, broker, replica.partition[0])
    unasked = not compacts and len(world.policies[replica.partition[0]]) == 1 and world.flawed("compact-unasked", 0.05)
    if not compacts and not unasked:
        return
    active = replica.batches[-SEGMENT] if len(replica.batches) > SEGMENT else replica.start
    limit = min(replica.high_watermark, active)
    keys, last = world.chronicle.keys, dict[int, int]()
    for offset in range(replica.start, limit):
        value = replica.log[offset - replica.start].value
        if value in keys:
            last[keys[value]] = offset
    too_much = compacts and world.flawed("compact-last", 0.04)
    gone = []
    for offset in range(replica.start, limit):
        entry = replica.log[offset - replica.start]
        if entry.value in keys and (last[keys[entry.value]] > offset or too_much):
            lawful = compacts and last[keys[entry.value]] > offset
            gone.append((offset, entry.value, lawful))
            replica.log[offset - replica.start] = Entry(EMPTY, entry.epoch)
    if gone:
        world.chronicle.happenings.append(
            Compacted(time_ns=world.now, partition=replica.partition, node=broker.node, records=gone)
        )
