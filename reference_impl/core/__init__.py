"""What the broker and the controller decide: synchronous and deterministic, without socket, clock or chance."""
