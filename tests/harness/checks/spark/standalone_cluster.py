"""A Spark cluster of a master and workers, from what PySpark ships, on loopback addresses and free ports."""

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark

from harness.checks.spark.jvm import _OPENED_PACKAGES
from harness.host.java import java_home, java_version
from tests.waiting import until

ADDRESS = "127.0.0.1"
_START_TIMEOUT_S = 200.0
_UNSAFE_ASKED_FROM = 23
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"  # Spark asks for it in every executor; small Javas lack it
# Nothing is handed out before both workers' executors are there: else one of them may have done all.
_SETTINGS = """
spark.cores.max 2
spark.scheduler.minRegisteredResourcesRatio 1.0
spark.scheduler.maxRegisteredResourcesWaitingTime 120s
spark.executor.memory 512m
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.sql.shuffle.partitions 2
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
"""


@contextlib.contextmanager
def standalone_cluster(folder: Path, *, workers: int = 2) -> Iterator[tuple[str, dict[str, str]]]:
    """(master's URL, environment of a driver); every process is ended by its id, whatever happens inside."""
    environment = {
        **os.environ,
        "JAVA_HOME": str(_java_that_ignores_the_missing_module(folder / "java")),
        "SPARK_LOCAL_IP": ADDRESS,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_SCALA_VERSION": "2.13",
    }
    (folder / "spark-defaults.conf").write_text(_SETTINGS)
    port = _free_port()
    url = f"spark://{ADDRESS}:{port}"
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, program: str, *arguments: str) -> None:
        with (folder / f"{name}.log").open("wb") as log:
            processes.append(
                subprocess.Popen(
                    [*_java(folder), program, "--host", ADDRESS, "--webui-port", str(_free_port()), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    cwd=folder,
                )
            )

    try:
        start("master", "org.apache.spark.deploy.master.Master", "--port", str(port))
        for number in range(1, workers + 1):
            start(
                f"worker-{number}",
                "org.apache.spark.deploy.worker.Worker",
                "--cores",
                "1",
                "--memory",
                "600m",
                "--work-dir",
                str(folder / f"worker-{number}"),
                url,
            )
        _wait_until_registered(folder, workers, processes)
        yield url, {"SPARK_CONF_DIR": str(folder), "SPARK_LOCAL_IP": ADDRESS}
    finally:
        for process in reversed(processes):  # workers first: they end their executors
            process.terminate()
        for process in reversed(processes):
            process.wait(timeout=20)


def _java(folder: Path) -> list[str]:
    home = java_home()
    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES]
    if java_version(home) >= _UNSAFE_ASKED_FROM:
        opened.append("--sun-misc-unsafe-memory-access=allow")
    jars = Path(pyspark.__file__).parent / "jars"
    return [
        str(home / "bin" / "java"),
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Xmx128m",
        "-XX:-UsePerfData",
        "--enable-native-access=ALL-UNNAMED",
        *opened,
        f"-Djava.io.tmpdir={folder}",
        "-cp",
        f"{jars}/*",
    ]


def _java_that_ignores_the_missing_module(home: Path) -> Path:
    """A Java home whose `java` is the checks' own, less one option: what a cluster's full Java would just accept."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        "for argument; do\n"
        "  shift\n"
        f'  [ "$argument" = {_MISSING_MODULE} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec "{java_home()}/bin/java" "$@"\n'
    )
    program.chmod(0o755)
    return home


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((ADDRESS, 0))
        port: int = listener.getsockname()[1]
        return port


def _wait_until_registered(folder: Path, workers: int, processes: list[subprocess.Popen[bytes]]) -> None:
    def registered() -> bool:
        ended = [process.args for process in processes if process.poll() is not None]
        assert not ended, f"ended at once: see the logs in {folder}"
        return (folder / "master.log").read_text(errors="replace").count("Registering worker") >= workers

    until(registered, f"{workers} workers; see the logs in {folder}", timeout_s=_START_TIMEOUT_S)
