"""A run, phase by phase; its plan, which is a schedule of faults or ordered steps; the observer of leaders and ISRs."""
