"""How faults come about, whoever asks for them: the engine, what is in force, and what came of a plan."""
