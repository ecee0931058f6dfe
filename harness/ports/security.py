"""How clients and brokers of a secured cluster prove themselves to each other: by TLS, by SASL, or by both.

A SecuritySpec has names alone, of files, variables and commands, so that it may be written down as it is. The secrets
themselves are read from there by whoever opens a connection, in its own process.
"""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from harness.errors import HarnessError
from harness.host.secrets import Secret, Token, token_command

PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
BY_TOKEN = "OAUTHBEARER"
MECHANISMS = (*PASSWORD_MECHANISMS, BY_TOKEN)
Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


class Unusable(HarnessError):
    """What a key of the table names cannot be used."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(what)
        self.key = key


@dataclass(frozen=True, kw_only=True)
class SecuritySpec:
    """The table [attached.security]. tls: the brokers' certificates are always verified; host names unless said."""

    tls: bool = True
    ca_file: str = ""  # empty: the authorities that this machine trusts
    certificate_file: str = ""  # the client's own, with its chain; with its key too, if there is no key_file
    key_file: str = ""
    key_password_env: str = ""
    key_password_file: str = ""
    verify_host_name: bool = True
    sasl: str = ""  # the mechanism; empty: none
    user: str = ""
    password_env: str = ""
    password_file: str = ""
    token_command: str = ""

    @property
    def protocol(self) -> Protocol:
        if self.tls:
            return "SASL_SSL" if self.sasl else "SSL"
        return "SASL_PLAINTEXT" if self.sasl else "PLAINTEXT"

    # -- what contradicts itself ------------------------------------------------------------------------------------

    def contradictions(self) -> Iterator[tuple[str, str, str]]:
        """Yields (key, what is wrong, remedy) of the table alone."""
        if not self.tls and not self.sasl:
            yield "tls", "with tls = false and no sasl nothing is secured", "leave [attached.security] out"
        if not self.tls:
            for key in ("ca_file", "certificate_file", "key_file", "key_password_env", "key_password_file"):
                if getattr(self, key):
                    yield key, f"{key} is for TLS, and tls = false", "leave one of them out"
        if not self.certificate_file:
            for key in ("key_file", "key_password_env", "key_password_file"):
                if getattr(self, key):
                    yield key, f"{key} without the certificate that it belongs to", "give certificate_file too"
        for secret in ("password", "key_password"):
            if getattr(self, f"{secret}_env") and getattr(self, f"{secret}_file"):
                yield f"{secret}_file", f"both {secret}_env and {secret}_file", "give one of them"
        yield from self._contradictions_of_sasl()

    def _contradictions_of_sasl(self) -> Iterator[tuple[str, str, str]]:
        by_password, by_token = self.sasl in PASSWORD_MECHANISMS, self.sasl == BY_TOKEN
        if by_password and not self.user:
            yield "sasl", f"sasl = {self.sasl} without a user", 'give user = "NAME"'
        if by_password and not self.password.is_named:
            yield "sasl", f"sasl = {self.sasl} without a password", 'give password_env = "VARIABLE" or password_file'
        if by_token and not self.token_command:
            yield "sasl", f"sasl = {self.sasl} without a token", "give token_command, which prints one"
        for key, belongs in (("user", by_password), ("password_env", by_password), ("password_file", by_password)):
            if getattr(self, key) and not belongs:
                yield key, f"{key} is for SASL with a password", f"give sasl = one of {', '.join(PASSWORD_MECHANISMS)}"
        if self.token_command and not by_token:
            yield "token_command", f"token_command is for sasl = {BY_TOKEN}", "give that, or leave it out"

    # -- what it names on this machine ------------------------------------------------------------------------------

    @property
    def password(self) -> Secret:
        return Secret(variable=self.password_env, file=self.password_file)

    @property
    def key_password(self) -> Secret:
        return Secret(variable=self.key_password_env, file=self.key_password_file)

    def read_password(self) -> str:
        """Raises Unusable."""
        try:
            return self.password.read()
        except HarnessError as error:
            raise Unusable("password_env" if self.password_env else "password_file", str(error)) from None

    def read_key_password(self) -> str:
        """Empty if none is named. Raises Unusable."""
        if not self.key_password.is_named:
            return ""
        try:
            return self.key_password.read()
        except HarnessError as error:
            raise Unusable("key_password_env" if self.key_password_env else "key_password_file", str(error)) from None

    def token(self) -> Token:
        """Raises Unusable."""
        try:
            return token_command(self.token_command).token()
        except HarnessError as error:
            raise Unusable("token_command", str(error)) from None

    def check(self) -> Iterator[Unusable]:
        """Everything of it that cannot be used here. Runs the token command."""
        if self.tls:
            try:
                tls_context(self)
            except Unusable as error:
                yield error
        if self.sasl:
            try:
                _ = self.token() if self.sasl == BY_TOKEN else self.read_password()
            except Unusable as error:
                yield error


@cache  # the authorities that a machine trusts are many
def tls_context(security: SecuritySpec) -> ssl.SSLContext:
    """For connections to brokers. Raises Unusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = security.verify_host_name
    if security.ca_file:
        try:
            context.load_verify_locations(security.ca_file)
        except ssl.SSLError:
            raise Unusable("ca_file", f"{security.ca_file} has no certificate in PEM form") from None
        except OSError as error:
            raise Unusable("ca_file", f"{security.ca_file}: {error.strerror}") from None
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if security.certificate_file:
        _load_own_certificate(context, security)
    return context


def _load_own_certificate(context: ssl.SSLContext, security: SecuritySpec) -> None:
    for key in ("certificate_file", "key_file"):
        name = getattr(security, key)
        if name:
            try:
                open(name, "rb").close()
            except OSError as error:
                raise Unusable(key, f"{name}: {error.strerror}") from None
    password = security.read_key_password()
    key_file = security.key_file or security.certificate_file
    try:
        # A callback, because otherwise a key that wants a password has OpenSSL ask for it at the terminal.
        context.load_cert_chain(security.certificate_file, key_file, password=lambda: password)
    except (ssl.SSLError, ValueError):
        key = "key_file" if security.key_file else "certificate_file"
        wrong = "with that password" if password else "as a key without a password"
        raise Unusable(key, f"{key_file} does not fit {security.certificate_file}, or cannot be read {wrong}") from None


def unverified_context() -> ssl.SSLContext:
    """For asking a listener whether it speaks TLS: no secret is ever sent over it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
