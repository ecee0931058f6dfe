"""Results of nights, kept, and what changed in them."""
