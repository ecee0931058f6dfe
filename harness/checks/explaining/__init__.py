"""Why something happened, above the findings: chains of causes, rewinds, what brokers answered, what would help."""
