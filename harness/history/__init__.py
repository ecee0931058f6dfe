"""What a run leaves behind: schemas, the journal, the run folder. Judging and reporting work from here alone."""
