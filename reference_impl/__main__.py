"""Starts one node: `python -m reference_impl broker --config FILE --hosts FILE` or `... coordination --config FILE`.

An unusable configuration ends the process with one line on stderr and exit code 2.
"""

import argparse
import asyncio
import logging
import signal
import sys
import time
from pathlib import Path
from random import SystemRandom

from reference_impl.coordination.service import run_from_config
from reference_impl.runtime.broker import Broker
from reference_impl.runtime.config import BrokerConfig, ConfigurationError, load
from reference_impl.runtime.hosts import Hosts
from reference_impl.runtime.threads import DecodingThread, DiskThreads
from reference_impl.storage.descriptors import Descriptors, raise_limit
from reference_impl.storage.disk import StorageError

logger = logging.getLogger("reference_impl")

CONFIGURATION_ERROR = 2


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m reference_impl", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    broker = commands.add_parser("broker", help="run one broker")
    broker.add_argument("--config", type=Path, required=True, metavar="FILE", help="server.properties")
    broker.add_argument("--hosts", type=Path, metavar="FILE", help='lines "address name", asked before the system')
    coordination = commands.add_parser("coordination", help="run the coordination service")
    coordination.add_argument("--config", type=Path, required=True, metavar="FILE", help="zoo.cfg")
    options = parser.parse_args(arguments)
    descriptors = raise_limit()
    if options.command == "coordination":
        return run_from_config(str(options.config))
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    try:
        config = load(options.config)
        hosts = Hosts.load(options.hosts) if options.hosts is not None else Hosts()
        return asyncio.run(_run_broker(config, hosts, descriptors))
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        return CONFIGURATION_ERROR
    except (OSError, StorageError) as error:
        sys.stderr.write(f"broker cannot start: {error}\n")
        return 1


async def _run_broker(config: BrokerConfig, hosts: Hosts, descriptors: Descriptors) -> int:
    loop = asyncio.get_running_loop()
    end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    broker = Broker(
        config,
        hosts=hosts,
        wall_clock_ms=lambda: time.time_ns() // 1_000_000,
        monotonic_ns=time.monotonic_ns,
        randomness=SystemRandom(),
        decoding=DecodingThread(),
        disk_work=DiskThreads(),
        descriptors=descriptors,
    )
    await broker.start()
    logger.info("broker %d listens on %s", config.broker_id, ", ".join(listener.name for listener in broker.listeners))
    broker.failed.add_done_callback(lambda _: end.set())
    await end.wait()
    if broker.failed.done():
        await broker.abandon()
        return 1
    logger.info("stopping")
    await broker.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
