"""What kind of thing a finding is, as sixteen hexadecimal digits that are the same in every run that shows it.

It is made of the check, the kind, the class, the topic and the cause. Left out is all that another seed, another
partition or a slower machine changes: partition, counts, offsets, epochs, brokers, times. Numbers within names and
causes stand for themselves no longer, and a list of brokers is as good as one.
"""

import hashlib
import json
import re

_NUMBER = re.compile(r"\d+(\.\d+)?")
_LIST = re.compile(r"#(?:(?:, | and |, and |-| to )#)+")
_SETTING = re.compile(r"[\w.]+=[\w.-]+")


def fingerprint_of(*, check: str, classification: str, kind: str, topic: str | None, cause: str, salt: str) -> str:
    """`cause`: the ruling's word where there is one, else the cause in words; `salt`: what else tells it apart."""
    parts = (check, classification, kind, like(topic or ""), like(cause), salt)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def like(text: str) -> str:
    """The text with its numbers taken out; what a setting is set to (acks=1) is no such number and stays."""
    kept: list[str] = []
    end = 0
    for found in _SETTING.finditer(text):
        kept += [_plain(text[end : found.start()]), found.group()]
        end = found.end()
    made = "".join([*kept, _plain(text[end:])])
    return _LIST.sub("#", made).replace("brokers #", "broker #")


def _plain(text: str) -> str:
    return _NUMBER.sub("#", text)
