"""Commands that have a module of their own; `harness/cli/main.py` adds them to the command line."""
