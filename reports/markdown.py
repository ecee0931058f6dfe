"""The little of Markdown that the pages of docs/anomalies use, as HTML: headings, paragraphs, lists, code.

Everything is escaped; the only tags are those made here. Links become their text: the page asks nothing of a network.
"""

import re
from collections.abc import Iterator, Sequence

from markupsafe import Markup, escape

_CODE = re.compile(r"`([^`]+)`")
_EMPHASIS = re.compile(r"\*([^*\s][^*]*)\*")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
FENCE = "```"


def sections(text: str) -> list[tuple[str, str]]:
    """(heading, text below it) of each `## ` heading; first ("", what stands between the title and the first)."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith(FENCE)
        if line.startswith("## ") and not fenced:
            parts.append((line[3:].strip(), []))
        elif not line.startswith("# ") or fenced:
            parts[-1][1].append(line)
    return [(heading, "\n".join(lines).strip()) for heading, lines in parts]


def html_of_markdown(text: str) -> Markup:
    return Markup("").join(_block(kind, lines) for kind, lines in blocks(text))


def blocks(text: str) -> Iterator[tuple[str, Sequence[str]]]:
    """("code" | "list" | "text", lines); a list's lines are its items, a continuation joined to its item."""
    lines = iter(text.splitlines())
    kind: str = ""
    held: list[str] = []
    for line in lines:
        if line.startswith(FENCE):
            if held:
                yield kind, held
            kind, held = "", []
            code = []
            for inner in lines:
                if inner.startswith(FENCE):
                    break
                code.append(inner)
            yield "code", code
        elif not line.strip():
            if held:
                yield kind, held
            kind, held = "", []
        elif line.startswith("- "):
            if kind == "text":
                yield kind, held
                held = []
            kind, held = "list", [*held, line[2:].strip()]
        elif kind == "list":
            held[-1] = f"{held[-1]} {line.strip()}"
        else:
            kind, held = "text", [*held, line.strip()]
    if held:
        yield kind, held


def _block(kind: str, lines: Sequence[str]) -> Markup:
    if kind == "code":
        return Markup("<pre>{}</pre>").format("\n".join(lines))
    if kind == "list":
        return Markup("<ul>{}</ul>").format(Markup("").join(Markup("<li>{}</li>").format(inline(i)) for i in lines))
    return Markup("<p>{}</p>").format(inline(" ".join(lines)))


def inline(text: str) -> Markup:
    """Code spans and *emphasis*; a link is its text."""
    made = []
    for number, part in enumerate(_CODE.split(text)):
        if number % 2:
            made.append(Markup("<code>{}</code>").format(part))
        else:
            plain = str(escape(_LINK.sub(r"\1", part)))
            made.append(Markup(_EMPHASIS.sub(r"<em>\1</em>", plain)))
    return Markup("").join(made)
