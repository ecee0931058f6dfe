"""Decides which losses are permitted: the rules that permit a loss, what invalidates a rule, and a loss's causes."""
