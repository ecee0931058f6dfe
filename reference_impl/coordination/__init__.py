"""The ZooKeeper-like coordination service and the brokers' asyncio client to it."""
