"""Shows run folders in a browser of this machine: reads, and never writes, starts or judges anything."""
