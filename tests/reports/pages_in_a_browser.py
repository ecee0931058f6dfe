"""Opens pages in headless Chromium, as wide, in such colours and with such rights as a test wants."""

import json
from pathlib import Path
from typing import Any

from benchmarks.browser import Pipe


class Opened:
    """A page that was loaded; `ask` evaluates an expression in it, `told` what the browser said meanwhile."""

    def __init__(
        self, pipe: Pipe, page: Path, *, width: int = 1280, scheme: str = "light", script: bool = True
    ) -> None:
        self.pipe = pipe
        target = pipe.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = pipe.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            pipe.ask(f"{domain}.enable", self._session)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        pipe.ask("Emulation.setDeviceMetricsOverride", self._session, **size)
        colours = [{"name": "prefers-color-scheme", "value": scheme}]
        pipe.ask("Emulation.setEmulatedMedia", self._session, features=colours)
        pipe.ask("Emulation.setScriptExecutionDisabled", self._session, value=not script)
        loads = len(pipe.told("Page.loadEventFired"))
        pipe.ask("Page.navigate", self._session, url=page.resolve().as_uri())
        while len(pipe.told("Page.loadEventFired")) == loads:
            pipe.ask("Runtime.evaluate", self._session, expression="1")

    def ask(self, expression: str) -> Any:
        answer = self.pipe.ask(
            "Runtime.evaluate", self._session, awaitPromise=True, userGesture=True, returnByValue=True,
            expression=f"(async () => JSON.stringify((await ({expression})) ?? null))()",
        )  # fmt: skip
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return json.loads(answer["result"]["value"])
