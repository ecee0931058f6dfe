"""Prints the tables of docs/clients.md, from clients run against a reference cluster of three brokers; `--lacking` says
only which clients this machine has no toolchain for."""

import sys
import tempfile
from pathlib import Path

from tests.interop.clients.table import CLIENTS, OPERATIONS, Outcome, go_lacking, maven_lacking, run
from tests.reference_impl.runtime.broker_processes import Processes, running


def main() -> None:
    for client in CLIENTS:
        if lacking := client.lacking():
            sys.stderr.write(f"left out: {client.name} ({lacking})\n")
    if lacking := go_lacking():
        sys.stderr.write(f"left out: tests/interop/kfake ({lacking})\n")
    if lacking := maven_lacking():
        sys.stderr.write(f"left out: docs/examples/java ({lacking})\n")
    if "--lacking" in sys.argv:
        return
    here = [client for client in CLIENTS if not client.lacking()]
    with tempfile.TemporaryDirectory() as folder, running(Processes(Path(folder))) as cluster:
        outcomes = {each.name: run(each, ",".join(cluster.bootstrap), each.name.replace(" ", "-")) for each in here}
    lines = [["operation", *outcomes], ["---"] * (len(outcomes) + 1)]
    for number, operation in enumerate(OPERATIONS.values()):
        lines.append([operation, *(column[number].cell for column in outcomes.values())])
    lines += [[], ["client", "asks for", "after", "is told"], ["---"] * 4]
    for name, column in outcomes.items():
        for outcome in column:
            if outcome.kind in ("fails", "hangs"):
                lines.append([name, OPERATIONS[outcome.operation], f"{outcome.seconds:.0f} s", _cell(outcome)])
    sys.stdout.writelines(f"| {' | '.join(line)} |\n" if line else "\n" for line in lines)


def _cell(outcome: Outcome) -> str:
    return (outcome.reported or "nothing").replace("|", "\\|")[:200].strip()


main()
