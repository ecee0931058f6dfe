"""What it costs to look inside batches, and what others notice of a gigabyte in a megabyte.

`python benchmarks/look_inside.py [--repeat 3]`: a reference cluster with reference.validate.records off and one with it
on take turns under the load of benchmarks/systems.py, plain and as zstd. Then one broker leads a partition that holds a
batch of a megabyte of gzip with a gigabyte in it. It is looked up by time again and again for some seconds, while
another client asks the broker for its versions. It reports that client's longest wait and the memory that the
broker took.
"""

import argparse
import asyncio
import socket
import struct
import sys
import threading
import time
import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import crc32c

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.needed import need
from benchmarks.systems import (
    LOADS,
    TOPIC,
    Load,
    Run,
    first_acknowledged,
    memory_mb,
    node_processes,
    summaries,
    table,
    through_confluent_kafka,
    turns,
)
from harness.cluster.catalogue import system_of
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.ownership import RunOwnership
from harness.host.clock import SystemClock
from harness.host.scratch import scratch_folder
from harness.ports.cluster import ClientId
from harness.scenario.model import ClusterSpec
from reference_impl.wire.api_keys import ApiKey
from reference_impl.wire.messages import encode_request, request_class

VARIANTS: Mapping[str, Mapping[str, str]] = {
    "looked at": {"reference.validate.records": "true"},
    "by its header": {},
}
PIECE_BYTES, PIECES = 1 << 20, 1000
LOOKUPS_S = 8.0


def loads() -> list[Load]:
    """The quick client's, without compression and with it."""
    plain = next(load for load in LOADS if load.send is through_confluent_kafka)
    zstd = partial(through_confluent_kafka, settings={"compression.type": "zstd"})
    return [plain, replace(plain, client="confluent-kafka, zstd", send=zstd)]


async def measure(settings: Mapping[str, str]) -> Run:
    seen: dict[str, float] = {}
    with scratch_folder("kafka-chaos-benchmark-") as folder, RunOwnership(Path(folder)):
        cluster = LocalCluster(
            run_path=Path(folder), system=system_of(ClusterSpec(settings=settings)), client_links=1, clock=SystemClock()
        )
        try:
            await cluster.start()
            await cluster.create_topics([TOPIC])
            bootstrap = cluster.bootstrap(ClientId(1))
            await asyncio.to_thread(first_acknowledged, bootstrap)
            for load in loads():
                await asyncio.to_thread(load.send, bootstrap, load.warm_up)
                seen[load.title] = await asyncio.to_thread(load.send, bootstrap, load.count)
        finally:
            await cluster.stop()
    return seen


# ---- a gigabyte in a megabyte ---------------------------------------------------------------------------------------


def bomb() -> bytes:
    """A batch without a fault: PIECES records of PIECE_BYTES zeros, and the time of now."""
    packing = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = []
    for number in range(PIECES):
        body = b"\0\0" + _varint(number) + _varint(-1) + _varint(PIECE_BYTES) + bytes(PIECE_BYTES) + b"\0"
        parts.append(packing.compress(_varint(len(body)) + body))
    now_ms = time.time_ns() // 1_000_000
    covered = struct.pack(">hiqqqhii", 1, PIECES - 1, now_ms, now_ms, -1, -1, -1, PIECES)
    covered += b"".join([*parts, packing.flush()])
    return struct.pack(">qiibI", 0, 9 + len(covered), -1, 2, crc32c.crc32c(covered)) + covered


def _varint(value: int) -> bytes:
    value = value << 1 ^ value >> 63
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def exchange(connection: socket.socket, request: bytes) -> None:
    """Sends it, and waits for the answer, whatever that is."""
    connection.sendall(request)
    _exactly(connection, int.from_bytes(_exactly(connection, 4), "big"))


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = connection.recv(size - len(found))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        found += piece
    return found


def produce(topic: str, batch: bytes) -> bytes:
    request = request_class(ApiKey.PRODUCE)
    data = request.TopicProduceData
    topics = [data(name=topic, partition_data=[data.PartitionProduceData(index=0, records=batch)])]
    body = request(transactional_id=None, acks=1, timeout_ms=30_000, topic_data=topics)
    return encode_request(ApiKey.PRODUCE, 9, 1, "benchmark", body)


def lookup(topic: str) -> bytes:
    request = request_class(ApiKey.LIST_OFFSETS)
    wanted = request.ListOffsetsTopic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=1)
    body = request(replica_id=-1, isolation_level=0, topics=[request.ListOffsetsTopic(name=topic, partitions=[wanted])])
    return encode_request(ApiKey.LIST_OFFSETS, 7, 1, "benchmark", body)


def versions() -> bytes:
    return encode_request(ApiKey.API_VERSIONS, 0, 1, "benchmark", request_class(ApiKey.API_VERSIONS)())


def looked_up(address: tuple[str, int], run: Path) -> Run:
    with socket.create_connection(address, timeout=60) as one, socket.create_connection(address, timeout=60) as other:
        exchange(one, produce(TOPIC.name, bomb()))
        before_mb = memory_mb(node_processes(run))
        count, most_mb, end = 0, before_mb, time.monotonic() + LOOKUPS_S

        def look_up() -> None:
            nonlocal count
            while time.monotonic() < end:
                exchange(one, lookup(TOPIC.name))
                count += 1

        looking = threading.Thread(target=look_up)
        looking.start()
        longest_s = 0.0
        while looking.is_alive():
            began = time.monotonic()
            exchange(other, versions())
            longest_s = max(longest_s, time.monotonic() - began)
            most_mb = max(most_mb, memory_mb(node_processes(run)))
        looking.join()
    return {
        "lookups": count,
        "longest wait of another client, ms": longest_s * 1000,
        "more memory, MB": most_mb - before_mb,
    }


async def measure_bomb() -> Run:
    with scratch_folder("kafka-chaos-benchmark-") as folder, RunOwnership(Path(folder)):
        spec = ClusterSpec(brokers=(1,), settings={"min.insync.replicas": "1", "default.replication.factor": "1"})
        cluster = LocalCluster(run_path=Path(folder), system=system_of(spec), client_links=1, clock=SystemClock())
        try:
            await cluster.start()
            await cluster.create_topics([replace(TOPIC, replication_factor=1, settings={})])
            host, _, port = cluster.bootstrap(ClientId(1)).rpartition(":")
            return await asyncio.to_thread(looked_up, (host, int(port)), Path(folder))
        finally:
            await cluster.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="turns of each setting")
    options = parser.parse_args()
    need("confluent_kafka")
    runs = []
    for variant in turns(list(VARIANTS), options.repeat):
        runs.append((variant, asyncio.run(measure(VARIANTS[variant]))))
        print(f"{variant}: {dict(runs[-1][1])}", file=sys.stderr)
    if runs:
        print(table(summaries(runs)))
    for name, value in asyncio.run(measure_bomb()).items():
        print(f"a gigabyte in a megabyte: {name}: {value:,.0f}")


if __name__ == "__main__":
    main()
