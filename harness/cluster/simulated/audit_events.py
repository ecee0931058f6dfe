"""Python's audit events, for whoever listens: a hook cannot be taken away again, so there is one for the process."""

import sys
from collections.abc import Callable
from typing import Any

Listener = Callable[[str, tuple[Any, ...]], None]  # of an event and its arguments, before it is done

_listening: tuple[Listener, ...] = ()
_is_hooked = False


def listen(listener: Listener) -> None:
    """Until `listen_no_more`. What it raises keeps the thing from being done."""
    global _listening, _is_hooked
    _listening = (*_listening, listener)
    if not _is_hooked:
        _is_hooked = True
        sys.addaudithook(_hook)


def listen_no_more(listener: Listener) -> None:
    global _listening
    _listening = tuple(each for each in _listening if each != listener)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    for listener in _listening:
        listener(event, arguments)
