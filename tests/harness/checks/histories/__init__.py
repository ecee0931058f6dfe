"""Histories for the checks: written by hand, drawn by chance, and models that say what is in them."""
