"""What a run leaves behind: table schemas, journals, the run folder. Checks and reports need nothing else."""
