"""One fault per file; catalogue.py lists them all, targets.py selects nodes by role, planned.py is one in a plan."""
