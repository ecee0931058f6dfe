"""The control socket: one JSON line a request, one JSON line an answer (docs/control.md).

Each request has a connection of its own, so that one that waits holds no other one up, in whatever thread it is.
"""

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_chaos_pytest.errors import ChaosError

ANSWER_S = 600.0  # for an answer; the limits of the requests themselves are shorter


class Control:
    """path: of the socket that `kafka-chaos cluster --control` made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._requests = 0

    def ask(self, word: str, value: Any, *, within_s: float | None = None) -> Mapping[str, Any]:
        """The answer. Raises ChaosError for a request that was refused or failed, or where nobody answers."""
        self._requests += 1
        request: dict[str, Any] = {"id": self._requests, word: value}
        if within_s is not None:
            request["within"] = f"{within_s:g} s"
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(ANSWER_S)
                connection.connect(str(self.path))
                connection.sendall(json.dumps(request).encode() + b"\n")
                with connection.makefile("rb") as answers:
                    line = answers.readline()
        except OSError as error:
            raise ChaosError("closed", f"{self.path}: nobody answers ({error})", "has the cluster ended?") from error
        if not line.endswith(b"\n"):
            raise ChaosError("closed", f"{self.path}: the cluster ended before it answered {word}")
        answer: Mapping[str, Any] = json.loads(line)
        if not answer["ok"]:
            refusal = answer["error"]
            raise ChaosError(refusal["code"], refusal["message"], refusal["remedy"])
        return answer
