"""Finds, before a run begins, everything that is known to make it fail: all problems at once, with place and remedy.

`looking.preflight` is the entry point. It starts nothing and writes nothing.
"""
