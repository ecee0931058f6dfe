"""The error for invalid contents of a broker's disk."""


class StorageError(Exception):
    """One line: which file, what is wrong with it, and the remedy."""
