"""How each system's nodes are configured and started, and how their own records are read."""
