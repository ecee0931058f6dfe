"""A run, phase by phase; its plan (a schedule of faults, or ordered steps); the observer of leaders and ISRs."""
