"""Every colour that a text has stands out from every colour that it may stand on, in the light and in the dark."""

import re
from importlib.resources import files

import pytest

AA = 4.5
CSS = (files("reports") / "templates" / "style.css").read_text(encoding="utf-8")
LIGHT, DARK = (
    dict(re.findall(r"--([a-z0-9]+):(#[0-9a-f]{3,6})\b", block))
    for block in re.findall(r":root\{(.*?)\}", CSS, re.DOTALL)[:2]
)
GROUNDS = ("bg", "panel", "sunk")
PAIRS = [
    *((text, ground) for text in ("ink", "ink2", "link", "ok", "per", "vio") for ground in GROUNDS),
    *(("ink3", ground) for ground in ("bg", "panel")),
    *(("ink", f"b{number}bg") for number in range(5)),
    *((text, ground) for text in ("ink", "ink2", "per") for ground in ("perbg", "hi")),
    *((text, "viobg") for text in ("ink", "ink2", "vio")),
    *((text, "okbg") for text in ("ink", "ok")),
    ("faultink", "faultbg"),
    ("faultink", "panel"),
    ("bg", "ink"),
    ("panel", "fault"),
]


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_measured_as_the_standard_says() -> None:
    assert contrast("#000000", "#fff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", [LIGHT, LIGHT | DARK], ids=["light", "dark"])
def test_every_text_colour_meets_aa_on_every_ground(scheme: dict[str, str]) -> None:
    fields = {f"{text} on {ground}": round(contrast(scheme[text], scheme[ground]), 2) for text, ground in PAIRS}
    assert {pair: ratio for pair, ratio in fields.items() if ratio < AA} == {}


AMBER = re.compile(r"var\(--per(bg|line)?\)")
SHEETS = sorted(sheet.name for sheet in (files("reports") / "templates").iterdir() if sheet.name.endswith(".css"))


@pytest.mark.parametrize("sheet", SHEETS)
def test_amber_is_of_what_a_configuration_permits_and_of_no_verdict(sheet: str) -> None:
    """A run that came to no conclusion is grey on every page: nothing was lost that was allowed to be."""
    text = (files("reports") / "templates" / sheet).read_text(encoding="utf-8")
    amber = [selector for selector, rules in re.findall(r"([^{}]+)\{([^{}]*)\}", text) if AMBER.search(rules)]
    others = r"\b(v-|q-)?(pass|violation|error|inconclusive|vacuous|low|none)\b"
    assert [selector for selector in amber if re.search(others, selector)] == []
    assert LIGHT["hi"] != LIGHT["perbg"]
    assert DARK["hi"] != DARK["perbg"]


def test_both_schemes_have_every_colour() -> None:
    assert LIGHT.keys() == DARK.keys()
