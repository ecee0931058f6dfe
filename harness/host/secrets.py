"""Secrets are read where the user keeps them, an environment variable or a file, at the moment they are needed.

What names them may be written down and shown; what they are is never kept in anything that is.
"""

import base64
import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from harness.errors import HarnessError

_TOKEN_COMMAND_S = 30.0
_SECRET_MAX_BYTES = 1 << 20
_UNKNOWN_LIFETIME_S = 60.0  # of a token that does not say when it expires
_RENEWED_AFTER = 0.8  # of its lifetime


@dataclass(frozen=True, kw_only=True)
class Secret:
    """Where a secret is: at most one of both."""

    variable: str = ""
    file: str = ""

    @property
    def is_named(self) -> bool:
        return bool(self.variable or self.file)

    def read(self) -> str:
        """Without the line feed at its end. Raises HarnessError."""
        if self.variable:
            value = os.environ.get(self.variable, "")
            if not value:
                raise HarnessError(f"the environment variable {self.variable} is not set; export it")
            return value
        try:
            with Path(self.file).open("rb") as file:
                kept = file.read(_SECRET_MAX_BYTES)
            value = kept.decode().removesuffix("\n").removesuffix("\r")
        except OSError as error:
            raise HarnessError(f"{self.file}: {error.strerror}; name a file with the secret alone") from None
        except UnicodeDecodeError:
            raise HarnessError(f"{self.file} is no text; name a file with the secret alone") from None
        if not value:
            raise HarnessError(f"{self.file} is empty; write the secret into it, and nothing else")
        return value


@dataclass(frozen=True, kw_only=True)
class Token:
    text: str = field(repr=False)
    expires_s: float  # of the wall clock


class TokenCommand:
    """A command that prints a token. It is run again before the token expires; any thread may ask."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._turn = threading.Lock()
        self._token: Token | None = None
        self._renew_s = 0.0

    def token(self) -> Token:
        """Raises HarnessError, without what the command said: that may be the secret."""
        with self._turn:
            now_s = time.time()
            if self._token is None or now_s >= self._renew_s:
                self._token = read_token(self._output(), now_s=now_s)
                self._renew_s = now_s + _RENEWED_AFTER * (self._token.expires_s - now_s)
            return self._token

    def _output(self) -> str:
        try:
            ended = subprocess.run(
                self._command,
                shell=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_TOKEN_COMMAND_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise HarnessError(f"the token command did not end within {_TOKEN_COMMAND_S:g} s; try it by hand") from None
        if ended.returncode != 0:
            raise HarnessError(f"the token command ended with {ended.returncode}; try it by hand")
        return ended.stdout.decode(errors="replace").strip()


@cache
def token_command(command: str) -> TokenCommand:
    """One for all clients of this process, which share its token."""
    return TokenCommand(command)


def read_token(printed: str, *, now_s: float) -> Token:
    """Of what a token command printed: a token alone, or the answer of an OAuth endpoint (RFC 6749, section 5.1), which
    is a JSON object with access_token and expires_in. Raises HarnessError."""
    answer = _object(printed)
    text: Any = printed if answer is None else answer.get("access_token")
    lifetime_s = None if answer is None else answer.get("expires_in")
    if not isinstance(text, str) or not text or len(text.split()) != 1:
        raise HarnessError(
            "the token command printed no token; let it print the token alone, or JSON with access_token and expires_in"
        )
    if isinstance(lifetime_s, int | float) and lifetime_s > 0:
        return Token(text=text, expires_s=now_s + lifetime_s)
    expires_s = _claims(text).get("exp")
    if isinstance(expires_s, int | float):
        return Token(text=text, expires_s=float(expires_s))
    return Token(text=text, expires_s=now_s + _UNKNOWN_LIFETIME_S)


def _claims(token: str) -> Mapping[str, Any]:
    """Of a JSON Web Token (RFC 7519); empty of any other one."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        decoded = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)).decode()
    except ValueError:
        return {}
    return _object(decoded) or {}


def _object(text: str) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
