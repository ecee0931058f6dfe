"""docs/clients.md says which client library can do what on the reference cluster: each for which this machine has a
toolchain is held against its column.

Nothing may be skipped in CI: with KAFKA_CHAOS_CLIENTS_HERE set, a library without its toolchain is left out, and
.ci/run says so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.clients.table import CLIENTS, LEAVE_OUT, OPERATIONS, NotReady, OutsideClient, run
from tests.reference_impl.runtime.broker_processes import Processes, running

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"

FIRST = ("java 4.3.1", "kafka-python")


def documented() -> dict[str, dict[str, str]]:
    """By client and operation, from the page's table."""
    lines = PAGE.read_text().splitlines()
    begins = next(number for number, line in enumerate(lines) if line.startswith("| operation |"))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[begins:]]
    head, body = rows[0], rows[2 : len(OPERATIONS) + 2]
    assert [row[0] for row in body] == list(OPERATIONS.values())
    return {client: {row[0]: row[column] for row in body} for column, client in enumerate(head) if column}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with running(Processes(tmp_path_factory.mktemp("clients"))) as made:
        yield made


def test_the_page_has_every_client() -> None:
    assert list(documented()) == [client.name for client in CLIENTS]


@pytest.mark.parametrize(
    "client",
    [
        pytest.param(
            each,
            id=each.name,
            marks=[
                pytest.mark.skipif(bool(each.lacking()), reason=each.lacking()),
                *([] if each.name in FIRST else [pytest.mark.further]),
            ],
        )
        for each in CLIENTS
        if not (LEAVE_OUT and each.lacking())
    ],
)
def test_a_client_can_do_what_the_page_says(cluster: Processes, client: OutsideClient) -> None:
    expected = documented()[client.name]
    try:
        outcomes = run(client, ",".join(cluster.bootstrap), client.name.replace(" ", "-"))
    except NotReady as error:
        pytest.skip(str(error))
    # Who is silent for the time of a run may end his search in that time on another machine.
    differing = [
        outcome
        for outcome in outcomes
        if outcome.cell != expected[OPERATIONS[outcome.operation]]
        and (expected[OPERATIONS[outcome.operation]], outcome.cell) != ("silent", "refused")
    ]
    assert differing == []
