"""What a broker says when its disk holds something it cannot use."""


class StorageError(Exception):
    """One line: which file, what is wrong with it, and the remedy."""
