"""Random small histories: a log with faults, told by clients that fail, crash, move and repeat themselves.

Not Kafka's behaviour, but near enough to it that every rule has something to say and something to keep silent about.
"""

from random import Random

_TYPES = ("ok",) * 6 + ("info", "fail")


class Generated:
    """One history of up to `length` operations, as EDN."""

    def __init__(self, seed: int, *, length: int = 24) -> None:
        self._random = Random(seed)
        self._events: list[str] = []
        few = self._random.random() < 0.8
        self._keys = [":x", ":y", ":z"] if few else [*map(str, range(10))]
        if self._chance(0.05):
            self._keys[0] = '"x"'
        self._logs: dict[str, list[tuple[int, int]]] = {key: [] for key in self._keys}
        self._next = dict.fromkeys(self._keys, 0)
        self._position: dict[tuple[int, str], int] = {}
        self._open: dict[int, tuple[str, list[str], list[str], str]] = {}
        self._values = 0
        self._run(length)

    @property
    def edn(self) -> str:
        return "\n".join(self._events)

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _run(self, length: int) -> None:
        processes = list(range(3 if self._chance(0.8) else 10))
        for _ in range(length):
            process = self._random.choice(processes)
            if process in self._open:
                self._complete(process)
            else:
                self._invoke(process)
        for process in list(self._open):
            if self._chance(0.7):
                self._complete(process)

    def _event(self, process: int, kind: str, f: str, value: str, extra: str = "") -> None:
        index = len(self._events)
        self._events.append(
            f"{{:index {index} :time {index * 10} :process {process} :type :{kind} :f :{f} :value {value}{extra}}}"
        )

    def _invoke(self, process: int) -> None:
        choice = self._random.random()
        if choice < 0.12:
            f = self._random.choice(["assign", "subscribe"])
            count = self._random.randint(0, len(self._keys))
            value = f"[{' '.join(self._random.sample(self._keys, count))}]"
            self._open[process] = (f, [value], [value], "")
            self._event(process, "invoke", f, value)
            return
        if choice < 0.15:
            self._open[process] = ("crash", ["nil"], ["nil"], "")
            self._event(process, "invoke", "crash", "nil")
            return
        f = self._random.choice(["send", "poll", "txn"])
        micro = [self._random.choice(["send", "poll"]) if f == "txn" else f for _ in range(self._random.randint(1, 3))]
        sends = [self._sent() if each == "send" else None for each in micro]
        asked = ["[:poll]" if sent is None else f"[:send {sent[0]} {sent[1]}]" for sent in sends]
        self._event(process, "invoke", f, f"[{' '.join(asked)}]")
        answered = [self._polled(process) if sent is None else self._acknowledged(*sent) for sent in sends]
        extra = ""
        if self._chance(0.1):
            kind = self._random.choice(["assigned", "revoked"])
            extra = f" :rebalance-log [{{:type :{kind} :keys [{self._random.choice(self._keys)}]}}]"
        self._open[process] = (f, asked, answered, extra)

    def _complete(self, process: int) -> None:
        f, asked, answered, extra = self._open.pop(process)
        kind = "info" if f == "crash" else self._random.choice(_TYPES)
        value = answered if kind == "ok" or self._chance(0.7) else asked
        text = " ".join(value)
        self._event(process, kind, f, text if f in ("assign", "subscribe", "crash") else f"[{text}]", extra)

    def _sent(self) -> tuple[str, int]:
        if self._values and self._chance(0.04):
            return self._random.choice(self._keys), self._random.randrange(self._values)
        self._values += 1
        return self._random.choice(self._keys), self._values - 1

    def _acknowledged(self, key: str, value: int) -> str:
        self._next[key] += 2 if self._chance(0.15) else 1
        offset = self._next[key] - 1
        if self._chance(0.08):  # some other record's place
            offset = max(0, offset - self._random.randint(1, 3))
        if not self._chance(0.05):  # else acknowledged and gone
            self._logs[key].append((offset, value))
        if self._chance(0.04):  # written twice
            self._logs[key].append((self._next[key], value))
            self._next[key] += 1
        return f"[:send {key} {value}]" if self._chance(0.12) else f"[:send {key} [{offset} {value}]]"

    def _polled(self, process: int) -> str:
        read = []
        keys = self._keys if self._chance(0.1) else self._random.sample(self._keys, self._random.randint(0, 2))
        for key in keys:
            log = sorted(self._logs[key])
            position = self._position.get((process, key), 0)
            if self._chance(0.15):
                position += self._random.randint(-2, 2)
            records = log[max(0, position) : max(0, position) + self._random.randint(0, 4)]
            self._position[process, key] = max(0, position) + len(records)
            if len(records) > 1 and self._chance(0.1):
                records.pop(self._random.randrange(len(records)))
            if len(records) > 1 and self._chance(0.08):
                self._random.shuffle(records)
            if not records and not self._chance(0.04):
                continue
            pairs = [f"[{'nil' if self._chance(0.03) else offset} {value}]" for offset, value in records]
            if self._chance(0.004):
                pairs.append(f"[{self._next[key]} {10_000 + self._values}]")  # nobody sent it
            read.append(f"{key} [{' '.join(pairs)}]")
        return f"[:poll {{{', '.join(read)}}}]"
