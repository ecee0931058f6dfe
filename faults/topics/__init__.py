"""What operators do to topics: they ask for elections and change settings."""
