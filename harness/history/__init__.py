"""What a run leaves behind: schemas, the journal, and the run folder. Everything to the right of it works from here alone."""
