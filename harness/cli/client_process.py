"""One client process of a workload: `kafka-chaos worker SPEC`, which only the harness starts.

A run has several, on the machine of the brokers that it measures: nothing is imported here that a client does not need.
"""

from collections.abc import Mapping

from harness.clients.catalogue import clients_for
from harness.clients.java_program import JavaTools
from harness.clients.resolving import resolving
from harness.controller.workers.acting import read_spec, run_worker
from harness.ports.own_names import OwnNames


def work(spec: str) -> None:
    """`spec`: the path of a WorkerSpec. Does not return, unless with an error."""
    client_spec = read_spec(spec)
    names = OwnNames(client_spec.names_before)
    with resolving(lambda: client_spec.names):
        makers = clients_for(
            client_spec.brokers_version, client_spec.security, names, java=lambda: _java_tools(client_spec.names)
        )
        run_worker(spec, clients=makers)


def _java_tools(names: Mapping[str, str]) -> JavaTools:
    from harness.preflight.java_clients import java_tools

    return java_tools(names)
