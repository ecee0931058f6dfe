"""The controller role of a broker."""
