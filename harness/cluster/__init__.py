"""The worlds a cluster can live in, and how each system's brokers are started."""
