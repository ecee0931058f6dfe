"""Jepsen's histories: EDN read into tables, and tables written as EDN."""
