"""What a system may lose: the rules that permit a loss, what cancels an excuse, and the causes behind a loss."""
