"""What a test does to its cluster, as context managers that heal at their end whatever happens, and the recording of
the application's own clients with its verdict."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from kafka_chaos_pytest.cluster import ChaosCluster, topic_of
from kafka_chaos_pytest.errors import ChaosError, Findings
from kafka_chaos_pytest.flow import Flow, Flows, flows_of, functions_of, ids_of
from kafka_chaos_pytest.journal import Journal
from kafka_chaos_pytest.roles import Role

CHECK_S = 540.0
_BUSY_S = 30.0  # a fault that another thread begins or heals is over by then
C = TypeVar("C")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One that is in force, or was. nodes: its victims. links: those that it struck."""

    number: int
    nodes: tuple[int, ...]
    links: tuple[str, ...]
    label: str


@dataclass(kw_only=True)
class Recording:
    """folder: the run folder that is being written."""

    folder: Path
    journals: list[Journal]  # of its clients
    origins: dict[str, dict[bytes, bytes | None]] = field(default_factory=dict)  # by topic: ids of values


class Chaos:
    """Faults, waits and recordings on one cluster."""

    def __init__(self, cluster: ChaosCluster) -> None:
        self.cluster = cluster
        self._recording: Recording | None = None

    # -- faults -------------------------------------------------------------------------------------------------------

    def pause(self, target: Role) -> AbstractContextManager[list[Fault]]:
        """Its processes stand still, and keep their connections."""
        return self.fault("pause", target)

    def kill(self, target: Role) -> AbstractContextManager[list[Fault]]:
        """SIGKILL; started again at the end."""
        return self.fault("kill", target)

    def isolate(self, target: Role, *, from_: str = "peers", mode: str = "hang") -> AbstractContextManager[list[Fault]]:
        """Cut from "peers", "coordination", "cluster" (both of these), "clients" or "all". mode: bytes wait ("hang"),
        or connections are "reset"."""
        return self.fault("isolate", target, **{"from": from_, "mode": mode})

    def cut(self, *links: str, mode: str = "hang") -> AbstractContextManager[list[Fault]]:
        """Exactly these links: "2>1" is what broker 2 opens to broker 1, "clients>1" what clients open to it."""
        return self.fault("cut", list(links), mode=mode)

    def slow(self, target: Role, *, delay_s: float = 0.5) -> AbstractContextManager[list[Fault]]:
        """A delay on its links to other brokers."""
        return self.fault("slow", target, delay=f"{delay_s * 1000:g} ms")

    @contextmanager
    def fault(self, name: str, target: Role | Sequence[str], **options: Any) -> Iterator[list[Fault]]:
        """Any fault of docs/scenarios.md with its options; in force until the end of the block."""
        self._know(target.topics if isinstance(target, Role) else ())
        expression = target.expression if isinstance(target, Role) else list(target)
        answer = self.cluster.control.ask("act", {name: expression, **options})
        faults = [
            Fault(
                number=each["fault"],
                nodes=tuple(each["nodes"]),
                links=tuple(each["links"]),
                label=each["label"],
            )
            for each in answer["faults"]
        ]
        try:
            yield faults
        finally:
            self.cluster.control.ask("heal", [fault.number for fault in faults])

    def elect(self, topic: str, partition: int = 0, *, kind: str = "preferred") -> None:
        """An election, "preferred" or "unclean". Raises ChaosError where the brokers refuse it."""
        self._know([topic])
        self.cluster.control.ask("act", {"elect": kind, "topic": topic, "partition": partition})

    def heal(self) -> None:
        """Whatever is in force."""
        self.cluster.control.ask("heal", "all")

    def _know(self, topics: Sequence[str] | frozenset[str]) -> None:
        """A topic that the application created is looked at from its first mention on."""
        if topics:
            self.cluster.state(sorted(topics))

    # -- what there is, and waiting for it ----------------------------------------------------------------------------

    def leader(self, topic: str, partition: int = 0) -> int:
        """Its node, -1 where nobody leads."""
        for state in self.cluster.state([topic])["partitions"]:
            if (state["topic"], state["partition"]) == (topic, partition):
                return int(state["leader"])
        return -1

    def wait_for(self, condition: Mapping[str, Any], *, within_s: float = 30.0) -> str:
        """A condition of docs/control.md, such as {"isr": [1, 2, 3], "topic": "orders"}; what was seen.

        Raises ChaosError (code "timeout") when it does not come about in time.
        """
        self._know([str(condition["topic"])] if "topic" in condition else ())
        return str(self.cluster.control.ask("wait", dict(condition), within_s=within_s)["seen"])

    def wait_for_new_leader(self, topic: str, partition: int = 0, *, than: int, within_s: float = 30.0) -> None:
        self.wait_for({"new_leader": than, "topic": topic, "partition": partition}, within_s=within_s)

    def wait_until_recovered(self, *, within_s: float = 30.0) -> None:
        """Every partition that was named has a leader, and all its replicas on running brokers are in sync."""
        self.wait_for({"recovered": True}, within_s=within_s)

    # -- recording ----------------------------------------------------------------------------------------------------

    @contextmanager
    def record(
        self, *topics: str | Mapping[str, Any], name: str = "application", partitions: int = 1
    ) -> Iterator[Recording]:
        """Creates the topics, and keeps what wrapped clients do and what faults do until `check`.

        topics: names, or tables as in [[topics]] of a scenario. Leaving the block without a check ends the recording
        without a verdict; its folder stays.
        """
        tables = [topic_of(each, partitions=partitions) if isinstance(each, str) else dict(each) for each in topics]
        answer = self.cluster.control.ask("record", {"name": name, "topics": tables})
        self._recording = recording = Recording(folder=Path(answer["run"]), journals=[])
        try:
            yield recording
        finally:
            if self._recording is recording:
                self._end(judge=False)

    def producer(
        self, client: C, *, acks: str | int | None = None, idempotent: bool | None = None, name: str = "producer"
    ) -> C:
        """The same producer, recorded: a KafkaProducer, confluent_kafka.Producer or AIOKafkaProducer.

        acks: what it was set to, 0, 1 or "all", where its library does not tell (confluent-kafka). Raises ChaosError
        where neither says it. idempotent: likewise; where neither says it, a record that is there twice is no finding
        but an open question.
        """
        from kafka_chaos_pytest.clients import acks_of, idempotence_of, library_of, recorded_producer

        known = acks_of(client, given=acks)
        is_idempotent = idempotence_of(client, given=idempotent)
        journal = self._journal(name)
        journal.begin_process(role="producer", acks=known, idempotent=is_idempotent, library=library_of(client))
        wrapped: C = recorded_producer(client, journal)
        return wrapped

    def consumer(
        self,
        client: C,
        *,
        isolation: str | None = None,
        group: str | None = None,
        from_beginning: bool = False,
        name: str = "consumer",
    ) -> C:
        """The same consumer, recorded. from_beginning: it starts there with each partition, so that what it passes
        over is a finding, until it seeks or is given the partition again.

        isolation: read_committed or read_uncommitted, where its library does not tell (confluent-kafka). Of one of
        which nobody says it, neither what it read nor what it passed over of uncommitted records is a finding. group:
        likewise; a flow is judged by what members of its group were given.
        """
        from kafka_chaos_pytest.clients import group_of, isolation_of, library_of, recorded_consumer

        known = isolation_of(client, given=isolation)
        journal = self._journal(name)
        journal.begin_process(
            role="consumer",
            library=library_of(client),
            isolation=known,
            reset="earliest" if from_beginning else "latest",
            reads_for=group_of(client, given=group),
        )
        wrapped: C = recorded_consumer(client, journal)
        return wrapped

    def _journal(self, name: str) -> Journal:
        if self._recording is None:
            raise ChaosError("bad-request", "nothing is being recorded", "wrap clients within `with chaos.record(...)`")
        given = self.cluster.control.ask("client", {"name": name})
        journal = Journal(Path(given["journal"]), process=given["process"], worker=name)
        self._recording.journals.append(journal)
        return journal

    def check(self, *, permitted: bool = False, flow: Flows = None, within_s: float = CHECK_S) -> Mapping[str, Any]:
        """Ends the recording and has it judged. Raises Findings, an AssertionError that shows them.

        permitted: whether what the application's own settings allow, such as records that were acknowledged with
        acks=1 and are lost, is allowed here, too. flow: topics of which what the application has committed must have
        come out in others, {"orders": "invoices"}, or a Flow. Raises ChaosError where the history proves nothing either
        way.
        """
        if self._recording is None:
            raise ChaosError("bad-request", "nothing is being recorded", "check within `with chaos.record(...)`")
        flows = flows_of(flow)
        self._tell_origins(self._recording, flows)
        answer = self._end(judge=True, flows=flows, within_s=within_s)
        refused = ("violation",) if permitted else ("violation", "permitted")
        found = [finding for finding in answer["findings"] if finding["class"] in refused]
        if found:
            raise Findings(found, answer)
        if answer["verdict"] != "pass":
            raise ChaosError("inconclusive", f"{answer['sentence']} See {answer['page'] or answer['run']}")
        return answer

    def _tell_origins(self, recording: Recording, flows: Sequence[Flow]) -> None:
        """Each once, in whichever journal. All are made before any is written: a function may fail."""
        made = {
            topic: ids_of(topic, _values_of(recording, topic), function)
            for topic, function in functions_of(flows).items()
        }
        for topic, ids in made.items():
            origins = recording.origins.setdefault(topic, {})
            if any(origins.get(value, origin) != origin for value, origin in ids.items()):
                what = f"flow: other ids of the values of {topic} were told before, by a check that was refused"
                raise ChaosError("bad-request", what, "give the same function, or record anew")
        for topic, ids in made.items():
            origins = recording.origins[topic]
            new = {value: origin for value, origin in ids.items() if value not in origins}
            if new:
                recording.journals[0].origins(topic, new)
            origins.update(new)

    def _end(self, *, judge: bool, flows: Sequence[Flow] = (), within_s: float | None = None) -> Mapping[str, Any]:
        """Where it is refused, the recording goes on."""
        recording, self._recording = self._recording, None
        assert recording is not None
        for journal in recording.journals:
            journal.pause()
        asked = {"judge": judge, **({"flows": [flow.asked() for flow in flows]} if flows else {})}
        try:
            return self._asked_to_end(asked, within_s)
        except ChaosError:
            if self._goes_on(recording):
                self._recording = recording
                for journal in recording.journals:
                    journal.go_on()
            raise
        finally:
            if self._recording is not recording:
                for journal in recording.journals:
                    journal.close()

    def _asked_to_end(self, asked: Mapping[str, Any], within_s: float | None) -> Mapping[str, Any]:
        """One that asks for no verdict has nobody who would ask again: it waits until the cluster is not busy."""
        patience_s = time.monotonic() + _BUSY_S
        while True:
            try:
                return self.cluster.control.ask("check", asked, within_s=within_s)
            except ChaosError as error:
                if error.code != "busy" or asked["judge"] or time.monotonic() > patience_s:
                    raise
                time.sleep(0.1)

    def _goes_on(self, recording: Recording) -> bool:
        """Whether the cluster still records it, whatever it answered."""
        try:
            return bool(self.cluster.state()["recording"] == str(recording.folder))
        except ChaosError:
            return False


def _values_of(recording: Recording, topic: str) -> Mapping[bytes, None]:
    return {value: None for journal in recording.journals for value in list(journal.values.get(topic, ()))}
