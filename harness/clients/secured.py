"""[attached.security] in the words of each client library. Secrets are read here, in the process of the client."""

import asyncio
from pathlib import Path
from typing import Any

from harness.ports.security import BY_TOKEN, SecuritySpec, Unusable, tls_context


def kafka_python_settings(security: SecuritySpec | None) -> dict[str, Any]:
    """Raises Unusable."""
    if security is None:
        return {}
    settings = _in_python(security)
    if security.sasl == BY_TOKEN:
        from kafka.net.sasl.oauth import AbstractTokenProvider

        settings["sasl_oauth_token_provider"] = _provider(AbstractTokenProvider, lambda: security.token().text)
    return settings


def aiokafka_settings(security: SecuritySpec | None) -> dict[str, Any]:
    """Raises Unusable."""
    if security is None:
        return {}
    settings = _in_python(security)
    if security.sasl == BY_TOKEN:
        from aiokafka.abc import AbstractTokenProvider

        async def token() -> str:
            return (await asyncio.to_thread(security.token)).text

        settings["sasl_oauth_token_provider"] = _provider(AbstractTokenProvider, token)
    return settings


def _in_python(security: SecuritySpec) -> dict[str, Any]:
    """The keys that kafka-python and aiokafka have in common."""
    settings: dict[str, Any] = {"security_protocol": security.protocol}
    if security.tls:
        settings["ssl_context"] = tls_context(security)
    if security.sasl:
        settings["sasl_mechanism"] = security.sasl
    if security.sasl and security.sasl != BY_TOKEN:
        settings |= {"sasl_plain_username": security.user, "sasl_plain_password": security.read_password()}
    return settings


def _provider(base: type, token: Any) -> Any:
    """Both libraries ask for an object of a class of their own."""
    made = type("Tokens", (base,), {"token": lambda self: token()})
    return made()


def confluent_settings(security: SecuritySpec | None) -> dict[str, Any]:
    """Raises Unusable."""
    if security is None:
        return {}
    settings: dict[str, Any] = {"security.protocol": security.protocol}
    if security.tls:
        settings["ssl.endpoint.identification.algorithm"] = "https" if security.verify_host_name else "none"
        if security.ca_file:
            settings["ssl.ca.location"] = security.ca_file
        if security.certificate_file:
            settings["ssl.certificate.location"] = security.certificate_file
            settings["ssl.key.location"] = security.key_file or security.certificate_file
        if password := security.read_key_password():
            settings["ssl.key.password"] = password
    if security.sasl:
        settings["sasl.mechanisms"] = security.sasl
    if security.sasl == BY_TOKEN:
        settings["oauth_cb"] = lambda _: _token_and_expiry(security)
    elif security.sasl:
        settings |= {"sasl.username": security.user, "sasl.password": security.read_password()}
    return settings


def _token_and_expiry(security: SecuritySpec) -> tuple[str, float]:
    token = security.token()
    return token.text, token.expires_s


# ---- Java -----------------------------------------------------------------------------------------------------------

_LOGIN = "org.apache.kafka.common.security"
_LOGIN_MODULES = {"PLAIN": f"{_LOGIN}.plain.PlainLoginModule"}  # of the others: SCRAM's


def java_settings(security: SecuritySpec | None) -> dict[str, str]:
    """Certificates and keys are PEM files, the key in PKCS #8, which alone Java reads. Raises Unusable."""
    if security is None:
        return {}
    assert security.sasl != BY_TOKEN, "preflight refuses it"
    settings: dict[str, str] = {"security.protocol": security.protocol}
    if security.tls:
        settings["ssl.endpoint.identification.algorithm"] = "https" if security.verify_host_name else ""
        if security.ca_file:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": security.ca_file}
        if security.certificate_file:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": _text_of(security.certificate_file, "certificate_file"),
                "ssl.keystore.key": _text_of(security.key_file or security.certificate_file, "key_file"),
            }
        if password := security.read_key_password():
            settings["ssl.key.password"] = password
    if security.sasl:
        module = _LOGIN_MODULES.get(security.sasl, f"{_LOGIN}.scram.ScramLoginModule")
        login = f"username={_quoted(security.user)} password={_quoted(security.read_password())}"
        settings |= {"sasl.mechanism": security.sasl, "sasl.jaas.config": f"{module} required {login};"}
    return settings


def _text_of(file: str, key: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise Unusable(key, f"{file} cannot be read as PEM") from None


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
