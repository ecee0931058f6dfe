"""The tables of a run folder: their columns, in the current and the previous version, and the rules for their rows."""
