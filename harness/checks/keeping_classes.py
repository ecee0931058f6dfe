"""Has the classes kept that checks load: by a second JVM, after the first verdict of an installation.

A JVM that writes them down is three times as slow, so the one that somebody waits for does not. The second judges an
artificial run (warm_up.py), writes the archive as it exits, and is awaited: nothing is left running.
"""

import logging
import sys

from harness.checks.spark.class_archive import OFF
from harness.checks.spark.jvm import keeping_jvm
from harness.checks.spark.session import spark_session
from harness.checks.warm_up import warm_up
from harness.errors import first_line

_LOG = logging.getLogger(__name__)


def keep_classes() -> None:
    """Does nothing if they are kept, if another process does it, or if the user does not want it."""
    jvm = keeping_jvm()
    if jvm is None:
        return
    sys.stderr.write(
        "kafka-chaos: the first check with this Java has the classes kept that it loaded, so that later ones start "
        f"sooner; this takes some seconds, once ({OFF}=1 turns it off)\n"
    )
    try:
        with spark_session(jvm=jvm) as session:
            warm_up(session)
    except Exception as error:  # noqa: BLE001  # nothing depends on it: a later check tries it again
        _LOG.warning("the classes that a check loads could not be kept: %s", first_line(error))
