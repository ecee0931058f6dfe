"""What a column of a declared table may be: its Arrow type and its bounds, as part of its Python type.

A row type (typed_rows.py) that is made of these declares its table once: the schema in Parquet, what the type checker
knows of a row, and what a row of somebody else's file is refused for.
"""

from dataclasses import dataclass
from typing import Annotated, TypeVar

import pyarrow as pa

T = TypeVar("T")


@dataclass(frozen=True)
class Within:
    """The least and the greatest number that is lawful."""

    least: int
    greatest: int | None = None


ADDED = object()
# A column that came within this version of the schema: its folders may lack it, and it is null then.
Added = Annotated[T, ADDED]

Int8 = Annotated[int, pa.int8()]
Int16 = Annotated[int, pa.int16()]
Int32 = Annotated[int, pa.int32()]
Int64 = Annotated[int, pa.int64()]
Natural16 = Annotated[Int16, Within(0)]
Natural32 = Annotated[Int32, Within(0)]
Natural64 = Annotated[Int64, Within(0)]

Nanoseconds = Int64
END_OF_TIME_NS = 2**62  # later than every time; its negative is earlier
Status = Annotated[Int8, Within(0, 2)]
Acks = Annotated[Int8, Within(-1, 1)]
Broker = Annotated[Int32, Within(-1)]  # -1: none
LeaderEpoch = Annotated[Int32, Within(-1)]  # -1: none is known
