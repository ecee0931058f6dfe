"""The command line: reads options, prints one clear line or a table."""
