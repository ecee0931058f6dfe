"""How this machine reaches Maven Central: its trusted certificates, its proxy, its mirror, as its own settings say.

Java brings certificates of its own and reads no proxy variables, so what every other program of the machine takes for
granted is handed to it: Python's certificates as a key store, HTTPS_PROXY and NO_PROXY as properties, and of Maven's
settings.xml the mirror of Central and the active proxy. A proxy's password is not handed on: a command line shows it.
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

_PASSWORD = "changeit"  # Java's own; the store holds nothing secret, the word only seals it against accidents
_SCHEMES = ("https", "http", "file")


@dataclass(frozen=True, kw_only=True)
class Access:
    """The JVM's options, and the address that stands in for Maven Central, or nothing."""

    java_options: tuple[str, ...]
    mirror: str

    @property
    def is_plain(self) -> bool:
        """Whether anybody in between can change what comes. Only a mirror of the user's own settings is so reached."""
        return urllib.parse.urlsplit(self.mirror).scheme == "http"


def access(folder: Path) -> Access:
    """What this machine says; `folder` receives the key store."""
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
        struct.pack(">I", 2)  # a trusted certificate: its name, when it was added, its kind, itself
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
    """The root of Maven's settings, without its namespaces; empty when the user has none."""
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
    """The first mirror that stands in for Central; one that Maven only uses to block is none."""
    for mirror in settings.iterfind("mirrors/mirror"):
        names = [name.strip() for name in mirror.findtext("mirrorOf", "").split(",")]
        if "!central" not in names and {"central", "*", "external:*"} & set(names):
            return mirror.findtext("url", "").strip().rstrip("/")
    return None


def _proxy(settings: ElementTree.Element) -> list[str]:
    """The environment's proxies, as Python reads them; else the first active one of Maven's settings."""
    told = urllib.request.getproxies()
    options = []
    for scheme in ("http", "https"):
        address = urllib.parse.urlsplit(told.get(scheme, ""))
        if address.hostname:
            options += _proxy_options(scheme, address.hostname, str(address.port or 80))
    if options:
        spared = "|".join(_any_host_below(name.strip()) for name in told.get("no", "").split(",") if name.strip())
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
