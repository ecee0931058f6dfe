"""A scenario made smaller for as long as it shows the same: what can be taken away, how it is tried, the search."""
