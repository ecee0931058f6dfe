"""The asyncio shell: sockets, timers, fsync and processes around the core's decisions."""
