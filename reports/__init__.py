"""From findings and bounded evidence tables to a frozen page model to one HTML file."""
