"""The command line: options in, one clear line or a table out."""
