"""Journals with every kind of line, cut as a kill cuts them."""

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from harness.history.facts.values import encode
from harness.history.journals.journal import JournalFile
from harness.ports.clients import ClientEvent, ClientUse
from harness.ports.cluster import ReadRecord, Send, SendOutcome, TopicPartition
from harness.ports.membership import GroupEvent, TransactionEnd
from tests.harness.history.test_tables import Ticks

NAMES = ("a", "b", "c")
_USE = ClientUse(role="both", group="workers", transactional_id="x-1", isolation="read_committed")
_PLACES = [TopicPartition(topic=topic, partition=part) for topic in ("orders", "audit") for part in range(2)]
_places = st.lists(st.sampled_from(_PLACES), min_size=1, max_size=3)
_statuses = st.sampled_from(["ok", "fail", "info", None])
_values = st.one_of(
    st.builds(encode, st.integers(0, 3), st.integers(0, 50)), st.sampled_from([b"r0", b"r1", b"\xff", b"a\nb"])
)

# (what, its arguments): one thing that a client does
acts = st.one_of(
    st.tuples(st.just("send"), _statuses, st.lists(st.tuples(st.sampled_from(_PLACES), _values), max_size=3)),
    st.tuples(st.just("poll"), st.booleans(), st.lists(st.tuples(st.sampled_from(_PLACES), _values), max_size=5)),
    st.tuples(st.just("final_poll"), st.booleans(), st.lists(st.tuples(st.sampled_from(_PLACES), _values), max_size=3)),
    st.tuples(st.just("assigned"), _places),
    st.tuples(st.sampled_from(["committed", "seek", "revoked"]), st.sampled_from(["ok", "fail", "info"]), _places),
    st.tuples(st.just("done"), st.sampled_from(["subscribe", "crash"])),
    st.tuples(st.just("begin")),
    st.tuples(st.just("end"), st.sampled_from(["committed", "aborted", "unknown"])),
    st.tuples(st.just("client")),
    st.tuples(
        st.just("met"),
        st.sampled_from(["attempt_failed", "leader", "connect"]),
        st.sampled_from([None, *_PLACES]),
        st.sampled_from(["fail", "info", None]),
        st.booleans(),
    ),
)
# of each journal: the share of its bytes that is left; 1: all of it
cuts = st.fixed_dictionaries({f"{name}.jsonl": st.one_of(st.just(1.0), st.floats(0, 1)) for name in NAMES})
stories = st.fixed_dictionaries({name: st.lists(acts, max_size=25) for name in NAMES})


class _Client:
    """Does what a story says; what was asked and is not answered at once may never be."""

    def __init__(self, path: Path, *, number: int, clock: Ticks) -> None:
        self._journal = JournalFile(path, worker=path.stem, clock=clock)
        self._clock = clock
        self._first = self._process = number
        self._transaction: int | None = None
        self._offset = 0

    def act(self, act: tuple[Any, ...]) -> None:
        journal = self._journal
        match act:
            case ("client",):
                self._transaction = None
                journal.begin_process(self._process, client="c", acks="all", replica=2, library="l", use=_USE)
                self._process += 10
            case ("send", status, records):
                sends = [Send(topic=to.topic, partition=to.partition, value=value) for to, value in records]
                operation = journal.invoke("send", sends, transaction=self._transaction)
                if status is not None:
                    journal.complete_send(operation, [self._outcome(status) for _ in sends])
            case ("poll" | "final_poll" as f, failed, records):
                operation = journal.invoke(f, transaction=self._transaction)
                error = "E 3" if failed else None
                journal.complete_poll(operation, [self._read(to, value) for to, value in records], error=error)
            case ("assigned", places):
                journal.assigned(places)
            case (("committed" | "seek" | "revoked") as event, status, places):
                journal.group_event(self._event(event, status, places), transaction=self._transaction)
            case ("done", f):
                journal.done(f)
            case ("met", event, place, status, late):
                journal.client_met(
                    self._first if late else self._process - 10, [self._client_event(event, place, status)]
                )
            case ("begin",):
                self._transaction = journal.begin_transaction()
            case ("end", outcome) if self._transaction is not None:
                journal.end_transaction(self._transaction, TransactionEnd(outcome=outcome, error=None))
                self._transaction = None

    def _outcome(self, status: Any) -> SendOutcome:
        self._offset += 1
        now, offset = self._clock.monotonic_ns(), self._offset if status == "ok" else None
        error = None if status == "ok" else f"E {self._offset % 3}"
        return SendOutcome(status=status, offset=offset, error=error, end_ns=now, timestamp_ms=now)

    def _read(self, to: TopicPartition, value: bytes) -> ReadRecord:
        self._offset += 1
        odd = bool(self._offset % 2)
        return ReadRecord(
            topic=to.topic,
            partition=to.partition,
            offset=self._offset,
            value=value,
            epoch=self._offset // 7,
            key=b"k%d" % self._offset if odd else None,
            timestamp_ms=self._offset // 3,
            log_append=odd,
        )

    def _client_event(self, event: Any, place: TopicPartition | None, status: Any) -> ClientEvent:
        topic, part = (None, None) if place is None else (place.topic, place.partition)
        error, epoch = None if status is None else f"E {status}", 7 if event == "leader" else None
        return ClientEvent(
            event=event,
            t_ns=self._clock.monotonic_ns(),
            node=part,
            topic=topic,
            partition=part,
            epoch=epoch,
            status=status,
            error=error,
        )

    def _event(self, event: Any, status: Any, places: list[TopicPartition]) -> GroupEvent:
        now, error = self._clock.monotonic_ns(), None if status == "ok" else "CommitFailedError"
        return GroupEvent(
            event=event,
            offsets=dict.fromkeys(places, 3),
            begin_ns=now - 1,
            end_ns=now,
            status=status,
            generation=1,
            member="m",
            error=error,
        )


def written(folder: Path, story: dict[str, list[tuple[Any, ...]]]) -> dict[str, bytes]:
    """Returns the journals' bytes. Clients act in turn, so that their operations are interleaved."""
    clock = Ticks()
    clients = {name: _Client(folder / f"{name}.jsonl", number=number, clock=clock) for number, name in enumerate(NAMES)}
    for client in clients.values():
        client.act(("client",))
    for turn in range(max(map(len, story.values()))):
        for name, client in clients.items():
            if turn < len(story[name]):
                client.act(story[name][turn])
    return {f"{name}.jsonl": (folder / f"{name}.jsonl").read_bytes() for name in NAMES}


def cut(history: Path, whole: dict[str, bytes], shares: dict[str, float]) -> None:
    """Writes what is left of the journals, often with a torn last line."""
    history.mkdir(parents=True)
    for name, share in shares.items():
        (history / name).write_bytes(whole[name][: int(share * len(whole[name]))])
