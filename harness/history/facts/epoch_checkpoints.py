"""A replica's leader-epoch checkpoint in the format of snapshots: "0:0 2:10" means epoch 0 from offset 0, epoch 2 from
10."""

import json
import re

_PAIR = re.compile(r"(\d+)\s*[:=]\s*(\d+)")


def epochs_of(text: str | None) -> list[tuple[int, int]]:
    """Parses it to (epoch, start offset) in order; also accepts JSON pairs, as other tools of this
    project write them."""
    if not text:
        return []
    if text.lstrip().startswith(("[", "{")):
        pairs = json.loads(text)
        items = pairs.items() if isinstance(pairs, dict) else pairs
        return [(int(epoch), int(start)) for epoch, start in items]
    return [(int(epoch), int(start)) for epoch, start in _PAIR.findall(text)]
