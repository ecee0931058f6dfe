"""The kind of a finding as sixteen hexadecimal digits, the same in every run that shows it.

It is computed from facts: the check, the class, the kind, the codes of the cause, the kinds of the faults involved and
the settings that decided. It leaves out everything that another seed, topic or a slower machine changes: topics,
partitions, counts, offsets, epochs, brokers, times. It contains no text, so rewording does not change it.
"""

import hashlib
import json
from collections.abc import Iterable

from harness.history.facts.finding_facts import Setting


def fingerprint_of(
    *, check: str, classification: str, kind: str, cause: Iterable[str] = (), fault_kinds: Iterable[str] = (),
    settings: Iterable[Setting] = (), apart: str = "",
) -> str:  # fmt: skip
    """cause: its codes, in order. apart: what else distinguishes it from similar ones, as a code or a number."""
    decided = sorted({(setting.key, setting.value) for setting in settings})
    parts = (check, classification, kind, list(cause), sorted(set(fault_kinds)), decided, apart)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
