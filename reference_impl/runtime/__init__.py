"""The asyncio shell around the core's decisions: sockets, timers, fsync and processes."""
