"""Secrets are read where the user keeps them, and what cannot be read is told without them."""

import base64
import json
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.host.secrets import Secret, Token, TokenCommand, read_token

NOW_S = 1_000_000.0


def web_token(claims: dict[str, object]) -> str:
    def part(content: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part(claims)}."


def test_a_variable_gives_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "a b,=c ")
    assert Secret(variable="PASSWORD").read() == "a b,=c "


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_file_gives_the_secret_without_the_end_of_its_line(tmp_path: Path, ending: str) -> None:
    (tmp_path / "secret").write_bytes(f" p w {ending}".encode())
    assert Secret(file=str(tmp_path / "secret")).read() == " p w "


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe"])
def test_a_file_without_a_secret_is_named_with_the_remedy(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(HarnessError, match=rf"{file}.*; (name a file with|write) the secret"):
        Secret(file=str(file)).read()


def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PASSWORD", raising=False)
    with pytest.raises(HarnessError, match="the environment variable PASSWORD is not set; export it"):
        Secret(variable="PASSWORD").read()


@pytest.mark.parametrize(
    ("printed", "expires_s"),
    [
        ("opaque-token", NOW_S + 60),
        (web_token({"exp": NOW_S + 300}), NOW_S + 300),
        (web_token({"sub": "chaos"}), NOW_S + 60),
        ("a.!!.c", NOW_S + 60),
    ],
)
def test_a_token_alone_expires_when_it_says_so_and_else_soon(printed: str, expires_s: float) -> None:
    assert read_token(printed, now_s=NOW_S) == Token(text=printed, expires_s=expires_s)


def test_an_endpoints_answer_gives_token_and_lifetime() -> None:
    printed = json.dumps({"access_token": "abc", "token_type": "Bearer", "expires_in": 120})
    assert read_token(printed, now_s=NOW_S) == Token(text="abc", expires_s=NOW_S + 120)


@pytest.mark.parametrize("printed", ["", "two words", '{"error": "invalid_client"}', '{"access_token": 3}'])
def test_what_is_no_token_is_refused_and_not_shown(printed: str) -> None:
    with pytest.raises(HarnessError, match="printed no token") as refused:
        read_token(printed, now_s=NOW_S)
    assert "words" not in str(refused.value)
    assert "invalid_client" not in str(refused.value)


def test_the_command_is_run_once_while_its_token_lives_and_again_when_it_does_not(tmp_path: Path) -> None:
    def times_run(lifetime_s: float) -> int:
        note = tmp_path / f"ran-{lifetime_s}"
        answer = json.dumps({"access_token": "abc", "expires_in": lifetime_s})
        command = TokenCommand(f"echo x >> {note}; echo '{answer}'")
        assert [command.token().text for _ in range(3)] == ["abc"] * 3
        return len(note.read_text().splitlines())

    assert times_run(3600) == 1
    assert times_run(1e-9) == 3


def test_a_command_that_fails_is_told_without_what_it_said() -> None:
    with pytest.raises(HarnessError, match=r"^the token command ended with 3; try it by hand$"):
        TokenCommand("echo my-secret; echo my-secret >&2; exit 3").token()


def test_a_token_is_not_shown_by_what_shows_it() -> None:
    assert "abc" not in repr(Token(text="abc", expires_s=0))
