"""One client process of a workload: `kafka-chaos worker SPEC`, which only the harness starts.

A run has several, on the machine of the brokers that it measures: nothing is imported here that a client does not need.
"""

from harness.clients.catalogue import clients_for
from harness.clients.resolving import resolving
from harness.controller.workers.acting import read_spec, run_worker
from harness.ports.own_names import OwnNames


def work(spec: str) -> None:
    """`spec`: the path of a WorkerSpec. Does not return, unless with an error."""
    client_spec = read_spec(spec)
    names = OwnNames(client_spec.names_before)
    with resolving(lambda: client_spec.names):
        run_worker(spec, clients=clients_for(client_spec.brokers_version, client_spec.security, names))
