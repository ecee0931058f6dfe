"""The page of trends over nights."""
