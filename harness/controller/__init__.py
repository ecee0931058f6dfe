"""A run, phase by phase; the disturbance; the observer of leaders and ISR."""
