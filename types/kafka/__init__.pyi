"""kafka-python has types for its messages, and not for their base classes: these are here. All else is untyped."""

from typing import Any

def __getattr__(name: str) -> Any: ...
