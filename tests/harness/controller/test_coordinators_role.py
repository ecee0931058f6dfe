"""Who coordinates a group is seen by who leads its partition of the internal topic."""

from harness.controller.coordinators import places_of
from harness.history.facts.internal_topics import GROUP_OFFSETS_TOPIC, TRANSACTIONS_TOPIC, partition_of
from harness.ports.load import LoadFacts


def test_a_group_and_a_transactional_id_have_their_places_as_soon_as_their_topics_are_seen() -> None:
    load = LoadFacts(group="readers", transactional_ids=("one",))
    seen = [(GROUP_OFFSETS_TOPIC, number) for number in range(50)]
    assert places_of(load, [("orders", 0)]) == {}
    assert places_of(load, seen) == {"readers": (GROUP_OFFSETS_TOPIC, partition_of("readers", 50))}
    both = places_of(load, [*seen, (TRANSACTIONS_TOPIC, 0)])
    assert both["one"] == (TRANSACTIONS_TOPIC, 0)
