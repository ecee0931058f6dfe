"""Texts that are whole numbers: of brokers, partitions and ports, wherever somebody writes them."""

_DIGITS_MAX = 10  # of what Kafka has 32 bits for


def is_number(text: str) -> bool:
    """Whether `int` takes it: not every digit of Unicode, and no number without end."""
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
