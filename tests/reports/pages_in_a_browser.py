"""Opens pages in headless Chromium, as wide, in such colours and with such rights as a test wants."""

import json
from pathlib import Path
from typing import Any

from benchmarks.browser import Pipe

AA = 4.5
# The least contrast of each text with what lies under it: the nearest background that is opaque. Texts on a pattern
# have a background of their own; who has none is told as "pattern".
LOW_CONTRASTS = """(() => {
  const parts = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((one) => one / 255)
    .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
    .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
  const ratio = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const under = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const style = getComputedStyle(each), colour = parts(style.backgroundColor);
      if (style.backgroundImage !== "none") return null;
      if (colour.length === 3 || colour[3] === 1) return colour;
      if (colour[3] > 0) return null;
    }
    return [255, 255, 255];
  };
  const low = {};
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility({visibilityProperty: true})) continue;
    if (element.closest(".vh, title, script, style")) continue;
    const style = getComputedStyle(element);
    const colour = parts(element.namespaceURI.endsWith("svg") ? style.fill : style.color);
    const ground = element.closest("svg .key") && element.tagName === "text" ?
      parts(getComputedStyle(element.parentElement.querySelector("circle")).fill) : under(element);
    const found = ground === null ? 0 : ratio(colour, ground);
    const where = element.tagName + "." + (element.getAttribute("class") || "") + " in " +
      (element.parentElement.getAttribute("class") || element.parentElement.tagName);
    if (found < AA) low[where] = ground === null ? "pattern" : Math.round(found * 100) / 100;
  }
  return low;
})()""".replace("AA", str(AA))


class Opened:
    """A page, a file or an address, that was loaded; `ask` evaluates an expression in it, `told` what the browser said
    meanwhile."""

    def __init__(
        self, pipe: Pipe, page: Path | str, *, width: int = 1280, scheme: str = "light", script: bool = True
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
        self._loading("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())

    def follow(self, expression: str) -> None:
        """Evaluates what leads to another page, and returns when that is loaded."""
        self._loading("Runtime.evaluate", userGesture=True, expression=f"void setTimeout(() => {{ {expression} }})")

    def click(self, x: int, y: int) -> None:
        """As a user does, wherever what is there comes from."""
        for event in ("mousePressed", "mouseReleased"):
            self.pipe.ask("Input.dispatchMouseEvent", self._session, type=event, x=x, y=y, button="left", clickCount=1)

    def _loading(self, method: str, **params: Any) -> None:
        loads = len(self.pipe.events("Page.loadEventFired"))
        self.pipe.ask(method, self._session, **params)
        while len(self.pipe.events("Page.loadEventFired")) == loads:
            self.pipe.ask("Runtime.evaluate", self._session, expression="1")

    def ask(self, expression: str) -> Any:
        answer = self.pipe.ask(
            "Runtime.evaluate",
            self._session,
            awaitPromise=True,
            userGesture=True,
            returnByValue=True,
            expression=f"(async () => JSON.stringify((await ({expression})) ?? null))()",
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return json.loads(answer["result"]["value"])
