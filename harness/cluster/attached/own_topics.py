"""The topics that a run has made on somebody else's cluster, told apart from others of the same name.

There, a name proves nothing: a broker's metadata may lag, so a topic may be there though the broker that was asked does
not know it, and error 36 (TOPIC_ALREADY_EXISTS) answers both somebody's topic and the run's own whose first answer was
lost. A run's topic is known by its id (KIP-516, Kafka 2.8), which the answer to its creation tells. While that answer
is missing, and where topics have no ids, it is known by a mark: `flush.messages`, a number of records that no log ever
holds, drawn anew for each creation. The setting changes nothing, because its default is such a number, too.
"""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.cluster.attached.administration import Administration, Looked
from harness.cluster.attached.authorizations import Lacking, refusal
from harness.cluster.attached.journal import DELETE_TOPIC, AttachedJournal, OwnTopic
from harness.cluster.books.observing import ALREADY_EXISTS, Observation
from harness.errors import HarnessError
from harness.ports.cluster import NodeId, TopicDefinition

MARK_KEY = "flush.messages"
_SETTLES_S, _LOOK_AGAIN_S = 5.0, 0.2  # for metadata to reach a broker that lags
# INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION: some clusters let nobody set the mark's key.
_MARK_REFUSED = (40, 42, 44)
_LARGEST = 2**63 - 1
_UNKNOWN_SERVER_ERROR = -1


def is_own(topic: OwnTopic, seen: Looked) -> bool:
    """Whether a broker's topic of that name is this one: by ids where both have one, else by its mark."""
    if topic.topic_id is not None and seen.topic_id is not None:
        return topic.topic_id == seen.topic_id
    return topic.mark is None or topic.mark == seen.mark


@dataclass(frozen=True, kw_only=True)
class OwnTopics:
    """`journal` keeps what was made, for the next command if the harness is killed."""

    journal: AttachedJournal
    administration: Administration

    # -- creation -----------------------------------------------------------------------------------------------------

    async def create(self, topic: TopicDefinition, observation: Observation, *, owes_deletion: bool) -> None:
        """Raises HarnessError if the topic is not this run's own afterwards; nothing is owed for it then."""
        mark = await self._mark_for(topic)
        try:
            made = await self._created(topic, observation, mark)
        except _MarkRefusedError:
            made = await self._created(topic, observation, None)
        self.journal.created(made)
        if owes_deletion:
            self.journal.owe(DELETE_TOPIC, made.name)

    async def note(self, name: str, *, owes_deletion: bool) -> None:
        """Of a topic that a request of this run has just made."""
        ids = [seen.topic_id for seen in (await self._look(name)).values() if seen is not None]
        made = OwnTopic(name=name, topic_id=next((each for each in ids if each is not None), None))
        self.journal.created(made)
        if owes_deletion:
            self.journal.owe(DELETE_TOPIC, name)

    async def _mark_for(self, topic: TopicDefinition) -> str | None:
        if MARK_KEY in topic.settings or not await self.administration.tells_settings():
            return None
        return str(_LARGEST - secrets.randbelow(_LARGEST // 2))

    async def _created(self, topic: TopicDefinition, observation: Observation, mark: str | None) -> OwnTopic:
        own = OwnTopic(name=topic.name, mark=mark)
        wanted = topic if mark is None else replace(topic, settings={**topic.settings, MARK_KEY: mark})
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _SETTLES_S
        while True:
            try:
                code, topic_id = await observation.request_creation(wanted)
            except HarnessError:  # it may have been carried out, and only its answers were lost
                found = await self._marked(own)
                if found is None:
                    raise
                return found
            if code == 0:
                return await self._with_mark_seen(replace(own, topic_id=topic_id))
            if mark is not None and code in _MARK_REFUSED:
                raise _MarkRefusedError
            if code != ALREADY_EXISTS:
                lacks = refusal(code, Lacking(operation="Create", resource=f"Topic {topic.name}"))
                of_its_own = "the broker's own log says why" if code == _UNKNOWN_SERVER_ERROR else ""
                remedy = lacks or of_its_own or "see [[topics]]"
                raise HarnessError(f"topic {topic.name!r} was refused with Kafka's error {code}; {remedy}")
            found = await self._marked(own)
            if found is not None:
                return found
            if loop.time() >= deadline:  # until then it may be one that is being deleted, or known to no broker yet
                raise there_already(topic.name)
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _marked(self, own: OwnTopic) -> OwnTopic | None:
        """The topic that carries the mark, with its id, as soon as a broker shows it."""
        if own.mark is None:
            return None
        seen = [each for each in (await self._look(own.name)).values() if each is not None]
        marked = [each for each in seen if each.mark == own.mark]
        return replace(own, topic_id=marked[0].topic_id) if marked else None

    async def _with_mark_seen(self, own: OwnTopic) -> OwnTopic:
        """Without an id everything rests on the mark: it is dropped if the cluster took it and does not keep it."""
        if own.topic_id is not None or own.mark is None:
            return own
        deadline = asyncio.get_running_loop().time() + _SETTLES_S
        while asyncio.get_running_loop().time() < deadline:
            found = await self._marked(own)
            if found is not None:
                return found
            await asyncio.sleep(_LOOK_AGAIN_S)
        return replace(own, mark=None)

    # -- what is done to a topic later --------------------------------------------------------------------------------

    async def confirm(self, name: str, what: str) -> None:
        """Raises HarnessError unless the topic of that name is this run's, by every broker that answers: a request
        that names a topic takes whichever has the name."""
        own = self.journal.own_topic(name)
        if own is None:
            raise HarnessError(f"{what}: topic {name!r} is not this run's, and is left alone")
        deadline = asyncio.get_running_loop().time() + _SETTLES_S
        while True:
            seen = [each for each in (await self._look(name)).values() if each is not None]
            if seen and all(is_own(own, each) for each in seen):
                return
            if asyncio.get_running_loop().time() >= deadline:
                why = "another one of that name is there now" if seen else "no broker knows it any more"
                raise HarnessError(f"{what}: topic {name!r} of this run is gone, {why}; nothing was done")
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def delete(self, name: str) -> str:
        """Deletes this run's topic and no other of that name; returns what came of it.

        Raises HarnessError if it may still be there; it stays owed then.
        """
        own = self.journal.own_topic(name)
        if own is None:  # noted by a release that did not know which of that name it had made
            if await self._is_nowhere(name):
                return self._gone(name, "is gone already")
            raise HarnessError(
                f"topic {name!r}: the run's notes do not say that it made the topic which is there; delete it by hand "
                "if it did"
            )
        if own.topic_id is not None and await self.administration.deletes_by_id():
            await self.administration.delete(own)
            return self._gone(name, "is deleted")
        return await self._delete_by_name(own)

    async def _delete_by_name(self, own: OwnTopic) -> str:
        deadline = asyncio.get_running_loop().time() + _SETTLES_S
        while True:
            seen = [each for each in (await self._look(own.name)).values() if each is not None]
            if seen and all(is_own(own, each) for each in seen):
                await self.administration.delete(replace(own, topic_id=None))
                return self._gone(own.name, "is deleted")
            if asyncio.get_running_loop().time() >= deadline:
                if any(is_own(own, each) for each in seen):
                    raise HarnessError(f"topic {own.name!r}: brokers do not agree which one of that name is there")
                left = ", and the one that is there now is not this run's: it is left alone" if seen else ""
                return self._gone(own.name, f"is gone already{left}")
            await asyncio.sleep(_LOOK_AGAIN_S)

    def _gone(self, name: str, how: str) -> str:
        return f"topic {name!r} {how}"

    async def _is_nowhere(self, name: str) -> bool:
        return not any((await self._look(name)).values())

    async def _look(self, name: str) -> Mapping[NodeId, Looked | None]:
        return await self.administration.look(name, MARK_KEY)


def there_already(name: str) -> HarnessError:
    return HarnessError(
        f"topic {name!r} is there already, and its records are not this run's: give [attached] a prefix, or choose "
        "another name in [[topics]]"
    )


class _MarkRefusedError(Exception):
    """The cluster may take the topic without the mark."""
