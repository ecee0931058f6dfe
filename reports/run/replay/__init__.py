"""How a run is had again and handed on: commands, what it was made of, an issue's text, the other runs beside it."""
