"""Producer ids, unique in the cluster for ever (KIP-98).

The broker reserves blocks of a thousand by a conditional write to /latest_producer_id_block and hands them out from
memory; a broker that dies wastes the rest of its block.
"""

import asyncio
import json

from reference_impl.coordination.client import BadVersion, CoordinationClient, CoordinationError, NodeExists, NoNode

BLOCK_PATH = "/latest_producer_id_block"
BLOCK_SIZE = 1000


class ProducerIds:
    def __init__(self, broker_id: int) -> None:
        self.coordination: CoordinationClient | None = None
        self._broker_id = broker_id
        self._next = 0
        self._end = 0  # exclusive
        self._turn = asyncio.Lock()

    async def allocate(self) -> int:
        """Returns a new producer id. Raises CoordinationError if no block can be reserved now."""
        async with self._turn:
            if self._next >= self._end:
                if self.coordination is None:
                    raise CoordinationError("no session with the coordination service")
                self._next = await self._claim_block(self.coordination)
                self._end = self._next + BLOCK_SIZE
            self._next += 1
            return self._next - 1

    async def _claim_block(self, coordination: CoordinationClient) -> int:
        while True:
            try:
                data, stat = await coordination.get(BLOCK_PATH)
                start = int(json.loads(data)["block_end"]) + 1
                await coordination.set(BLOCK_PATH, self._block(start), version=stat.version)
                return start
            except NoNode:
                try:
                    await coordination.create(BLOCK_PATH, self._block(0))
                    return 0
                except NodeExists:
                    continue  # another broker was first: reserve the block after its
            except BadVersion:
                continue

    def _block(self, start: int) -> bytes:
        block = {
            "version": 1,
            "broker": self._broker_id,
            "block_start": str(start),
            "block_end": str(start + BLOCK_SIZE - 1),
        }
        return json.dumps(block).encode()
