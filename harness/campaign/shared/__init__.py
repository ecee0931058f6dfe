"""Clusters on which several runs of a campaign are made, one after the other."""
