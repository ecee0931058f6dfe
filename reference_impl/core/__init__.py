"""The decisions of broker and controller: synchronous and deterministic, without sockets, clocks or randomness."""
