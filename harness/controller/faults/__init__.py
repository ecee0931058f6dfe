"""How faults begin and end, for schedules and steps alike: the engine, the faults in force, a plan's results."""
