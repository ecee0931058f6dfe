"""The result of decoding a producer's batch: whether its records match the header, and their timestamps."""

from dataclasses import dataclass
from enum import Enum, auto

from reference_impl.wire.compression import NotDecompressed, TooMuchInside
from reference_impl.wire.record_batches import Buffer, parse_headers
from reference_impl.wire.record_contents import UnsoundRecords, records
from reference_impl.wire.record_timestamps import NO_TIMESTAMP


class Unfit(Enum):
    """Why the records of a batch are refused."""

    NOT_DECOMPRESSED = auto()
    TOO_MUCH = auto()
    UNSOUND = auto()


@dataclass(frozen=True, kw_only=True)
class Look:
    unfit: Unfit | None = None
    oldest: int = NO_TIMESTAMP  # smallest and largest timestamp of the records that have one
    youngest: int = NO_TIMESTAMP
    all_keyed: bool = True


def look_at(batch: Buffer) -> Look:
    """Decodes one whole batch of a producer. The header's own fields are checked elsewhere (core.validation)."""
    headers = parse_headers(batch)
    if len(headers) != 1:
        return Look(unfit=Unfit.UNSOUND)
    (header,) = headers
    oldest: int | None = None
    youngest = NO_TIMESTAMP
    all_keyed = True
    try:
        for number, (offset, timestamp, has_key) in enumerate(records(batch, header)):
            all_keyed = all_keyed and has_key
            if offset != header.base_offset + number:
                return Look(unfit=Unfit.UNSOUND)
            if timestamp != NO_TIMESTAMP and (oldest is None or timestamp < oldest):
                oldest = timestamp
            if timestamp > youngest:
                youngest = timestamp
    except NotDecompressed:
        return Look(unfit=Unfit.NOT_DECOMPRESSED)
    except TooMuchInside:
        return Look(unfit=Unfit.TOO_MUCH)
    except UnsoundRecords:
        return Look(unfit=Unfit.UNSOUND)
    return Look(oldest=NO_TIMESTAMP if oldest is None else oldest, youngest=youngest, all_keyed=all_keyed)
