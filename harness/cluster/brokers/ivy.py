"""Downloads modules and their dependencies with Apache Ivy, which is part of PySpark.

Ivy's exit code is unreliable and its output is long, so the output is parsed: for progress, for missing modules, and
for whether the repository was reachable.
"""

import importlib.util
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from harness.cluster.brokers.kafka_versions import Module
from harness.cluster.brokers.maven_access import Access, access
from harness.errors import HarnessError

_CONNECT_TIMEOUT_MS = 15_000
_READ_TIMEOUT_MS = 60_000
_PROGRESS_EVERY_S = 0.5
_MIRROR = "the mirror of Maven Central in Maven's settings.xml"
_FOUND = re.compile(r"^\tfound (\S+)#(\S+);(\S+) in ")
_DOWNLOADED = re.compile(r"^\t\[SUCCESSFUL \] (\S+)#([^;\s]+);([^!\s]+)!")
# Ivy calls a module without description "unresolved"; a missing jar or a wrong checksum is "failed".
_UNRESOLVED = re.compile(r"^\t\t:: (\S+)#([^;\s]+);([^!:\s]+): (.+)$")
_FAILED = re.compile(r"^\t\t\[FAILED +\] (\S+)#([^;\s]+);([^!\s]+)![^:]+: (.*) \(\d+ms\)$")
_UNREACHABLE = re.compile(r"Server access error at url \S+ \((.*)\)|\t(?:Host (\S+ not found))")
_COPIED = re.compile(r"^\t(\d+) artifacts copied, (\d+) already retrieved")


def ivy_jar() -> Path:
    """The path of Ivy among PySpark's jars. PySpark itself is not imported."""
    found = importlib.util.find_spec("pyspark")
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        for jar in sorted((Path(place) / "jars").glob("ivy-*.jar")):
            return jar
    raise HarnessError("PySpark's jars hold no ivy-*.jar, which fetches Kafka: reinstall pyspark")


def retrieve(
    modules: Sequence[Module],
    *,
    into: Path,
    work: Path,
    cache: Path,
    java: Path,
    pinned: bool,
    progress: Callable[[str], None],
) -> int:
    """Puts the jars of the modules and their dependencies into the folder `into`; returns their number.

    `work` gets Ivy's input files; `cache` has Ivy's cache and its last output. `pinned`: the caller checks the jars by
    pins.
    """
    work.mkdir(parents=True, exist_ok=True)
    cache.mkdir(parents=True, exist_ok=True)
    reach = access(work)
    if reach.is_plain:
        guard = "the pinned SHA-256 alone protect" if pinned else "nothing protects, this version not being pinned,"
        progress(f"{_MIRROR} is plain http: {guard} from whoever is in between")
    description, settings = work / "ivy.xml", work / "ivysettings.xml"
    description.write_text(_description(modules), encoding="utf-8")
    settings.write_text(_settings(cache, reach), encoding="utf-8")
    command = [
        str(java / "bin" / "java"),
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        *reach.java_options,
        "-jar",
        str(ivy_jar()),
        "-settings",
        str(settings),
        "-ivy",
        str(description),
        "-confs",
        "default",
        "-retrieve",
        f"{into}/[artifact]-[revision].[ext]",
    ]
    code, lines = _run(command, progress)
    log = cache / "ivy.log"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    copied = [sum(map(int, found.groups())) for line in lines if (found := _COPIED.match(line))]
    if code != 0 or not copied:
        raise HarnessError(_failure(lines, mirrored=bool(reach.mirror)) or f"Ivy ended with code {code}: see {log}")
    return copied[-1]


def _run(command: Sequence[str], progress: Callable[[str], None]) -> tuple[int, list[str]]:
    """Returns the exit code and all output lines."""
    lines: list[str] = []
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise HarnessError(f"{command[0]} could not be started ({error}): point JAVA_HOME to another Java") from error
    with process:
        assert process.stdout is not None
        try:
            for progress_line in _progress_lines(_kept(process.stdout, lines)):
                progress(progress_line)
        except BaseException:  # also on Ctrl-C: Ivy must not continue alone
            process.kill()
            raise
    return process.returncode, lines


def _description(modules: Sequence[Module]) -> str:
    """The module description for Ivy: configuration `default` of a Maven module is its jar with run-time dependencies,
    `master` the jar alone."""
    dependencies = "".join(
        f"<dependency org={quoteattr(module.group)} name={quoteattr(module.name)} rev={quoteattr(module.version)} "
        + ('conf="default->master" transitive="false"/>' if module.alone else 'conf="default->default"/>')
        for module in modules
    )
    return (
        '<ivy-module version="2.0"><info organisation="kafka-chaos" module="kafka"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _settings(cache: Path, reach: Access) -> str:
    """One resolver, so that no files left by other programs are used. Ivy must verify the repository's checksums.

    They are SHA-1 at best: Ivy looks for stronger ones under names that Maven repositories do not use.
    """
    root = f" root={quoteattr(reach.mirror + '/')}" if reach.mirror else ""
    return (
        '<ivysettings><settings defaultResolver="central"/>'
        f"<caches defaultCacheDir={quoteattr(str(cache))}/>"
        f'<timeout-constraints><timeout-constraint name="patient" connectionTimeout="{_CONNECT_TIMEOUT_MS}" '
        f'readTimeout="{_READ_TIMEOUT_MS}"/></timeout-constraints>'
        '<resolvers><ibiblio name="central" m2compatible="true" checksums="sha1,md5" '
        f'timeoutConstraint="patient"{root}/></resolvers></ivysettings>'
    )


def _kept(output: Iterator[str], lines: list[str]) -> Iterator[str]:
    for line in output:
        lines.append(line.rstrip("\n"))
        yield lines[-1]


def _progress_lines(output: Iterator[str]) -> Iterator[str]:
    """One line per module with its number; fast ones are skipped."""
    found, downloaded, last_s = 0, 0, 0.0
    for line in output:
        if match := _FOUND.match(line):
            found += 1
            progress_line = f"found {found}: {match[2]} {match[3]}"
        elif match := _DOWNLOADED.match(line):
            downloaded += 1
            progress_line = f"downloaded {downloaded}: {match[2]} {match[3]}"
        else:
            continue
        now_s = time.monotonic()
        if now_s - last_s >= _PROGRESS_EVERY_S:
            last_s = now_s
            yield progress_line


def _failure(lines: Sequence[str], *, mirrored: bool) -> str:
    """The reason of Ivy's failure in one line, or "". An unreachable repository comes first: nothing else is known
    then."""
    repository = _MIRROR if mirrored else "Maven Central"
    for line in lines:
        if match := _UNREACHABLE.search(line):
            reason = match[1] or match[2]
            return f"{repository} could not be reached ({reason}): look at the network, the proxy and the certificates"
    missing = {
        f"{match[1]}:{match[2]}:{match[3]}": match[4] or "not found"
        for line in lines
        if (match := _UNRESOLVED.match(line) or _FAILED.match(line))
    }
    if missing:
        named = ", ".join(f"{module} ({reason})" for module, reason in missing.items())
        return f"{repository} does not give {named}: choose another version, or try again later"
    return ""
