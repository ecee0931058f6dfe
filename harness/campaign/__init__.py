"""Campaigns: many runs, drawn or listed, judged together."""
