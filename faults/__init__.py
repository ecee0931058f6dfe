"""One fault per file; targets.py picks nodes by role; plan.py says when."""
