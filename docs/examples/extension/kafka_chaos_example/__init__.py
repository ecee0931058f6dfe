"""The example of docs/extending.md: one of each thing that a package can add."""
