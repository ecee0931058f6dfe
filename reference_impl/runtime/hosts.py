"""Resolves host names, and is the only module that does: first by a hosts file (lines "address name"), then by the
operating system. Every node of a local cluster has its own file, and therefore its own address for each peer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reference_impl.runtime.config import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Hosts:
    addresses: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> "Hosts":
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"hosts file {path}: {error.strerror}; give --hosts a readable file") from error
        addresses: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.split("#", 1)[0].split()
            if not words:
                continue
            if len(words) < 2:
                raise ConfigurationError(f"{path}:{number}: expected 'address name', found {line.strip()!r}")
            for name in words[1:]:
                addresses.setdefault(name, words[0])
        return cls(addresses=addresses)

    def address_of(self, name: str) -> str:
        return self.addresses.get(name, name)
