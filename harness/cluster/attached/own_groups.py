"""The groups and transactional ids of a run on somebody else's cluster: none that is there already is used, and the
groups are deleted afterwards. No request deletes a transactional id; it expires.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.cluster.attached.administration import Administration
from harness.cluster.attached.journal import DELETE_GROUP, AttachedJournal
from harness.errors import HarnessError
from harness.ports.own_names import OwnNames

_ANOTHER = "give [attached] a prefix, or choose another name in [workload]"


@dataclass(frozen=True, kw_only=True)
class OwnGroups:
    """`names`: what they are called there."""

    journal: AttachedJournal
    administration: Administration
    names: OwnNames

    async def claim(self, *, groups: Sequence[str], transactional_ids: Sequence[str], owes_deletion: bool) -> None:
        """Raises HarnessError if one of them is there, or if that cannot be told of names without a mark."""
        for kind, wanted, known in (
            ("group", groups, await self.administration.groups() if groups else None),
            ("transactional id", transactional_ids, await self._transactional_ids(transactional_ids)),
        ):
            for name in map(self.names.there, wanted):
                if known is None and not self.names.before:
                    raise HarnessError(
                        f"whether {kind} {name!r} is somebody's cannot be asked of this cluster; {_ANOTHER}"
                    )
                if known is not None and name in known:
                    raise HarnessError(f"{kind} {name!r} is there already, and is left alone; {_ANOTHER}")
        if owes_deletion and groups and await self.administration.deletes_groups():
            for name in map(self.names.there, groups):
                self.journal.owe(DELETE_GROUP, name)

    async def _transactional_ids(self, wanted: Sequence[str]) -> set[str] | None:
        return await self.administration.transactional_ids() if wanted else None

    async def delete(self, name: str) -> str:
        """`name`: on the cluster. Returns what came of it. Raises HarnessError if it may still be there."""
        await self.administration.delete_group(name)
        return f"group {name!r} is deleted"
