"""Texts as somebody might name a topic, a scenario or a client who wishes the reader ill."""

TERMINAL = (
    "\x1b[2J\x1b]0;owned\x07\x9b31m\x7f\u202egnp.exe\u2066\u200f\u2028PASS  nothing\r\nPASS  all is well\x00\ud800"
    "[/bold][red]:bug:[[topics]]"
)
TERMINAL_SHOWN = (
    r"\u001b[2J\u001b]0;owned\u0007\u009b31m\u007f\u202egnp.exe\u2066\u200f\u2028PASS  nothing\r\nPASS  all is well"
    r"\u0000\ud800[/bold][red]:bug:[[topics]]"
)
