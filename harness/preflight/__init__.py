"""What can be known to fail before a run begins: all of it at once, each with its place and its remedy.

`looking.preflight` is the one way in. It starts nothing and writes nothing; what it finds costs no run.
"""
