"""The families of checks, each one module with its question and its findings."""
