"""Journals: what clients and the controller write line by line during a run."""
