"""How this machine reaches Maven Central: trusted certificates, proxy and mirror, from the machine's own settings.

Java has its own certificates and ignores proxy variables, so it gets what other programs use: Python's certificates as
a key store, HTTPS_PROXY and NO_PROXY as properties, and from Maven's settings.xml the mirror of Central and the active
proxy. A proxy's password is not passed on, because a command line is visible to other users.
"""

import hashlib
import os
import ssl
import struct
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from harness.errors import HarnessError

_PASSWORD = "changeit"  # Java's default; the store contains nothing secret, and the password only detects damage
_SCHEMES = ("https", "http", "file")


@dataclass(frozen=True, kw_only=True)
class Access:
    """The JVM's options, and the address that replaces Maven Central, or ""."""

    java_options: tuple[str, ...]
    mirror: str

    @property
    def is_plain(self) -> bool:
        """True for an unencrypted connection, which others can modify. Only a mirror of the user's own settings is used
        so."""
        return urllib.parse.urlsplit(self.mirror).scheme == "http"


def access(folder: Path) -> Access:
    """Reads this machine's settings; `folder` gets the key store."""
    path = Path.home() / ".m2" / "settings.xml"
    settings = _settings(path)
    mirror = _mirror(settings)
    if mirror is not None and urllib.parse.urlsplit(mirror).scheme not in _SCHEMES:
        raise HarnessError(f"{path}: the <url> of Maven Central's mirror must be one of {', '.join(_SCHEMES)}; mend it")
    options = [*_trust(folder / "trusted.jks"), *_proxy(settings)]
    return Access(java_options=tuple(options), mirror=mirror or "")


# ---- certificates ---------------------------------------------------------------------------------------------------


def _trust(path: Path) -> list[str]:
    chosen = " ".join(os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"))
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not certificates or "javax.net.ssl.trustStore" in chosen:
        return []
    path.write_bytes(key_store(certificates))
    return [f"-Djavax.net.ssl.trustStore={path}", f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}"]


def key_store(certificates: list[bytes]) -> bytes:
    """A JKS key store, version 2, that trusts these certificates (DER)."""
    entries = b"".join(
        struct.pack(">I", 2)  # a trusted certificate: alias, creation time, type, contents
        + _text(str(number))
        + struct.pack(">Q", 0)
        + _text("X.509")
        + struct.pack(">I", len(certificate))
        + certificate
        for number, certificate in enumerate(certificates)
    )
    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates)) + entries
    seal = hashlib.sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body)
    return body + seal.digest()


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">H", len(encoded)) + encoded


# ---- Maven's settings.xml and the environment -----------------------------------------------------------------------


def _settings(path: Path) -> ElementTree.Element:
    """The root of Maven's settings without namespaces; empty if the user has none."""
    if not path.is_file():
        return ElementTree.Element("settings")
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        raise HarnessError(
            f"{path}: Maven's settings cannot be read ({error}); mend the file or move it away"
        ) from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _mirror(settings: ElementTree.Element) -> str | None:
    """The first mirror of Central; one that only blocks access is ignored."""
    for mirror in settings.iterfind("mirrors/mirror"):
        names = [name.strip() for name in mirror.findtext("mirrorOf", "").split(",")]
        if "!central" not in names and {"central", "*", "external:*"} & set(names):
            return mirror.findtext("url", "").strip().rstrip("/")
    return None


def _proxy(settings: ElementTree.Element) -> list[str]:
    """The environment's proxy, as Python reads it; else the first active one of Maven's settings."""
    proxies = urllib.request.getproxies()
    options = []
    for scheme in ("http", "https"):
        address = urllib.parse.urlsplit(proxies.get(scheme, ""))
        if address.hostname:
            options += _proxy_options(scheme, address.hostname, str(address.port or 80))
    if options:
        spared = "|".join(_any_host_below(name.strip()) for name in proxies.get("no", "").split(",") if name.strip())
        return [*options, *([f"-Dhttp.nonProxyHosts={spared}"] if spared else [])]
    for proxy in settings.iterfind("proxies/proxy"):
        if proxy.findtext("active", "true").strip() == "true":
            host, port = proxy.findtext("host", "").strip(), proxy.findtext("port", "80").strip()
            spared = proxy.findtext("nonProxyHosts", "").strip()
            options = [option for scheme in ("http", "https") for option in _proxy_options(scheme, host, port)]
            return [*options, *([f"-Dhttp.nonProxyHosts={spared}"] if spared else [])]
    return []


def _proxy_options(scheme: str, host: str, port: str) -> list[str]:
    return [f"-D{scheme}.proxyHost={host}", f"-D{scheme}.proxyPort={port}"]


def _any_host_below(name: str) -> str:
    """NO_PROXY's `.example.org` is Java's `*.example.org`."""
    return f"*{name}" if name.startswith(".") else name
