"""One fault a file; catalogue.py names them all, targets.py picks nodes by role, plan.py says when."""
