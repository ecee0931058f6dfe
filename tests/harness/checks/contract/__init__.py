"""What a system may lose, and what cancels an excuse."""
