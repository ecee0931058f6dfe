"""One fault per file; catalogue.py lists them all, targets.py selects nodes by role, plan.py makes the schedule."""
