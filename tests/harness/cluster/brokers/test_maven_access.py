"""Java gets this machine's certificates, proxies and mirrors."""

import hashlib
import ssl
import struct
from pathlib import Path

import pytest

from harness.cluster.brokers.maven_access import access, key_store
from harness.errors import HarnessError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without settings, on a machine without proxies."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return tmp_path


def settings(home: Path, inner: str, namespace: str = "") -> None:
    (home / ".m2").mkdir()
    (home / ".m2" / "settings.xml").write_text(f"<settings{namespace}>{inner}</settings>")


def properties(home: Path) -> dict[str, str]:
    pairs = (option.removeprefix("-D").partition("=") for option in access(home).java_options)
    return {key: value for key, _, value in pairs}


def test_a_machine_that_says_nothing_has_no_proxy_and_no_mirror(home: Path) -> None:
    assert access(home).mirror == ""
    assert not any("proxy" in key.lower() for key in properties(home))


def test_the_machines_certificates_become_a_key_store_that_java_reads(home: Path) -> None:
    trusted = ssl.create_default_context().get_ca_certs(binary_form=True)

    said = properties(home)

    if not trusted:
        assert "javax.net.ssl.trustStore" not in said
        return
    data = Path(said["javax.net.ssl.trustStore"]).read_bytes()
    assert struct.unpack(">III", data[:12]) == (0xFEEDFEED, 2, len(trusted))
    assert all(certificate in data for certificate in trusted)


def test_a_key_store_is_sealed_with_javas_own_word() -> None:
    data = key_store([b"one", b"two"])

    word = "changeit".encode("utf-16-be")
    assert data[-20:] == hashlib.sha1(word + b"Mighty Aphrodite" + data[:-20]).digest()


def test_a_key_store_that_the_user_chose_is_left_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Djavax.net.ssl.trustStore=/mine")

    assert "javax.net.ssl.trustStore" not in properties(home)


def test_the_environments_proxy_is_javas(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "localhost,.example.org")

    said = properties(home)

    assert (said["https.proxyHost"], said["https.proxyPort"]) == ("proxy.example", "3128")
    assert said["http.nonProxyHosts"] == "localhost|*.example.org"
    assert not any("secret" in value for value in said.values())


def test_the_active_proxy_of_mavens_settings_is_javas(home: Path) -> None:
    idle = "<proxy><active>false</active><host>idle.example</host></proxy>"
    active = "<proxy><host>proxy.example</host><port>8080</port><nonProxyHosts>localhost|*.x</nonProxyHosts></proxy>"
    settings(home, f"<proxies>{idle}{active}</proxies>", ' xmlns="urn:of-some-settings-version"')

    said = properties(home)

    assert (said["https.proxyHost"], said["https.proxyPort"]) == ("proxy.example", "8080")
    assert said["http.nonProxyHosts"] == "localhost|*.x"


@pytest.mark.parametrize("stands_for", ["central", "*", "external:*", "other, central"])
def test_a_mirror_of_central_stands_in_for_it(home: Path, stands_for: str) -> None:
    mirror = f"<mirror><mirrorOf>{stands_for}</mirrorOf><url>file:/near/</url></mirror>"
    settings(home, f"<mirrors>{mirror}</mirrors>")

    assert access(home).mirror == "file:/near"


@pytest.mark.parametrize("stands_for", ["other", "external:http:*", "*,!central"])
def test_a_mirror_of_something_else_does_not(home: Path, stands_for: str) -> None:
    settings(home, f"<mirrors><mirror><mirrorOf>{stands_for}</mirrorOf><url>file:/near</url></mirror></mirrors>")

    assert access(home).mirror == ""


@pytest.mark.parametrize("address", ["", "ftp://near.example/", "near.example"])
def test_a_mirror_without_an_address_that_can_be_asked_is_refused_and_central_is_not_asked(
    home: Path, address: str
) -> None:
    settings(home, f"<mirrors><mirror><mirrorOf>*</mirrorOf><url>{address}</url></mirror></mirrors>")

    with pytest.raises(HarnessError, match=r"settings\.xml: the <url> of Maven Central's mirror must be one of https"):
        access(home)


@pytest.mark.parametrize(
    ("address", "plain"), [("HTTP://near/", True), ("https://near/", False), ("file:/near", False)]
)
def test_only_plain_http_is_reported_as_plain(home: Path, address: str, plain: bool) -> None:
    settings(home, f"<mirrors><mirror><mirrorOf>*</mirrorOf><url>{address}</url></mirror></mirrors>")

    assert access(home).is_plain == plain


def test_settings_that_cannot_be_read_are_reported_in_one_line(home: Path) -> None:
    settings(home, "<mirrors>")

    with pytest.raises(HarnessError, match=r"settings\.xml: Maven's settings cannot be read") as caught:
        access(home)
    assert "\n" not in str(caught.value)
