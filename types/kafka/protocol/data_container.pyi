"""Without kafka-python's `__getattr__`, which would make every wrong name of a field look right."""

from typing import Any, ClassVar

class DataContainer:
    _struct: ClassVar[Any]
    def __init__(self, *args: Any, version: int | None = None, **fields: Any) -> None: ...
    @property
    def version(self) -> int | None: ...
    def encode(self, version: int | None = None) -> bytes: ...
