"""The page that compares runs."""
