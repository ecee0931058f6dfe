"""What a comment or a document refers to is in the repository: documents, rules of replication, claims of the seeds.

Comments, docstrings and documents are looked through; of other strings only what names a file below docs/. A document
is named from the root of the repository, or from beside the file that names it; one on the web by its whole address.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RULES = ROOT / "docs" / "replication.md"
CLAIMS = ROOT / "docs" / "seed_claims.md"
PACKAGES = ("benchmarks", "faults", "harness", "reference_impl", "reports", "tests", "workloads")

_DOCUMENT = re.compile(r"(?<![\w./:{}*-])[\w./-]+\.md\b")
_ADDRESS = re.compile(r"https?://\S+")
_RULE = re.compile(r"\bR(\d{1,3})\b")
_RANGE = re.compile(r"\bR(\d{1,3})(?:-| to )R(\d{1,3})\b")
_CLAIM = re.compile(r"\b[Cc]laims? (S\d\d(?:(?:,| and)? S\d\d)*)")
# Sections and lists that only their authors could look up: (1.10), """1.8: and M64.
_SECTION = re.compile(r"\(1\.\d{1,2}(?:, 1\.\d{1,2})*\)|\"\"\"1\.\d{1,2}\b(?!\.)|\bM\d\d\b")
_WORTH_A_LOOK = re.compile(rf"\.md\b|{_RULE.pattern}|{_CLAIM.pattern}|{_SECTION.pattern}")
_DEFINED = re.compile(r'^<a id="r(\d+)"></a>\*\*R(\d+)\.', re.MULTILINE)
_CODE = re.compile(r"`((?:coordination|core|runtime|storage|wire)/[a-z_]+\.py)`((?:,? `_*[A-Za-z]\w*(?:__)?`)*)")


def of_python(source: str) -> Iterator[tuple[int, str]]:
    """(line, comment or docstring)"""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        # A string that stands alone: a docstring, or what is said of the assignment before it.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, f'"""{node.value.value}"""'


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        if _WORTH_A_LOOK.search(source):
            yield from of_python(source)
            for number, line in enumerate(source.split("\n"), start=1):
                yield from ((number, found) for found in re.findall(r"\bdocs/[\w./-]+\.md\b", line))
    elif path.suffix == ".toml":
        yield from ((number, line) for number, line in enumerate(source.split("\n"), start=1) if line.startswith("#"))
    else:
        yield from enumerate(source.split("\n"), start=1)


def _sources() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    yield from (ROOT / "docs").rglob("*.md")
    yield ROOT / "pyproject.toml"
    for package in PACKAGES:
        yield from (ROOT / package).rglob("*.py")
        yield from (ROOT / package).rglob("*.toml")


def defined_rules() -> list[int]:
    return [int(number) for number, _ in _DEFINED.findall(RULES.read_text(encoding="utf-8"))]


def missing(text: str, beside: Path, *, rules: frozenset[int], claims: frozenset[str]) -> Iterator[str]:
    """What a text refers to that is not there."""
    for name in _DOCUMENT.findall(_ADDRESS.sub("", text)):
        if not any((folder / name).is_file() for folder in (ROOT, beside)):
            yield name
    ranges = [(int(first), int(last)) for first, last in _RANGE.findall(text)]
    cited = {int(number) for number in _RULE.findall(text)}
    cited |= {number for first, last in ranges for number in range(first, last)}
    yield from (f"R{number}" for number in sorted(cited - rules))
    for named in _CLAIM.findall(text):
        yield from (claim for claim in re.findall(r"S\d\d", named) if claim not in claims)


def test_what_is_cited_is_in_the_repository() -> None:
    rules = frozenset(defined_rules())
    claims = frozenset(re.findall(r"^\| (S\d\d) \|", CLAIMS.read_text(encoding="utf-8"), re.MULTILINE))
    assert [
        f"{path.relative_to(ROOT)}:{line}: {cited}"
        for path in _sources()
        for line, text in _texts(path)
        for cited in missing(text, path.parent, rules=rules, claims=claims)
    ] == []


def test_no_comment_cites_a_section_without_a_document() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{line}: {cited}"
        for path in _sources()
        if path.suffix == ".py" and path != Path(__file__)
        for line, text in _texts(path)
        for cited in _SECTION.findall(text)
    ] == []


def test_every_rule_is_given_once_and_in_order() -> None:
    assert all(anchor == number for anchor, number in _DEFINED.findall(RULES.read_text(encoding="utf-8")))
    assert defined_rules() == list(range(1, len(defined_rules()) + 1))


def test_every_rule_says_where_in_the_code_it_is_followed() -> None:
    paragraphs = [each for each in RULES.read_text(encoding="utf-8").split("\n\n") if each.startswith("<a id=")]
    assert len(paragraphs) == len(defined_rules())
    assert [each[:40] for each in paragraphs if "Code: `" not in " ".join(each.split())] == []


def _named_code() -> list[tuple[str, str]]:
    """(file, name in it), "" for the file alone."""
    text = " ".join(RULES.read_text(encoding="utf-8").split())
    found = [(file, re.findall(r"`(\w+)`", names)) for file, names in _CODE.findall(text)]
    return sorted({(file, name) for file, names in found for name in names or [""]})


@pytest.mark.parametrize(("file", "name"), _named_code())
def test_the_code_that_a_rule_names_is_there(file: str, name: str) -> None:
    tree = ast.parse((ROOT / "reference_impl" / file).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    assert not name or name in {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# told in nowhere.md 1.5", ["nowhere.md"]),
        ("see docs/replication.md and https://example.org/nowhere.md", []),
        ("R1 and R999; R1 to R3", ["R3", "R999"]),
        ("(claims S01, S98)", ["S98"]),
    ],
)
def test_a_citation_of_what_is_not_there_is_seen(text: str, expected: list[str]) -> None:
    assert list(missing(text, ROOT, rules=frozenset({1, 2}), claims=frozenset({"S01"}))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("acks=all hangs (1.10).", ["(1.10)"]),
        ('"""1.8: an equal log"""', ['"""1.8']),
        ("not a duplicate (M64)", ["M64"]),
        ("For 0.9 to 3.9: up to 1.1 (in 1.1.1) they tell no other way, after 1.5 s (1.5 s)", []),
    ],
)
def test_a_section_without_a_document_is_seen(text: str, expected: list[str]) -> None:
    assert _SECTION.findall(text) == expected
