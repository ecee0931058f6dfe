"""The worlds in which a cluster can run, and how each system's brokers are started."""
