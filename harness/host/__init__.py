"""What the harness takes from the machine it runs on: clocks, chance, memory, Java, and the user's own folders."""
