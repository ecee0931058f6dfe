"""Links with several faults: the newest determines the state, and the last one to end heals the link."""

from harness.cluster.link_holders import LinkHolders
from harness.ports.cluster import Link, NodeId

A, B = (Link(source=NodeId(node), target=NodeId(1)) for node in (2, 3))


def test_a_link_is_free_when_its_last_holder_lets_go() -> None:
    holders = LinkHolders[str]()
    holders.hold([A, B], "hang")
    holders.hold([A], "hang")
    assert holders.release([A, B], "hang") == {A: "hang", B: None}
    assert holders.release([A], "hang") == {A: None}


def test_what_is_let_go_is_the_harm_that_is_named() -> None:
    holders = LinkHolders[str]()
    holders.hold([A], "hang")
    holders.hold([A], "reset")
    assert holders.in_force(A) == "reset"
    assert holders.release([A], "reset") == {A: "hang"}
    holders.hold([A], "reset")
    assert holders.release([A], "hang") == {A: "reset"}


def test_where_no_harm_is_named_the_oldest_goes_and_the_newest_stays_in_force() -> None:
    holders = LinkHolders[float]()
    holders.hold([A], 500.0)
    holders.hold([A], 200.0)
    assert holders.release([A]) == {A: 200.0}
    assert holders.release([A]) == {A: None}


def test_a_link_that_nobody_holds_is_free_however_often_it_is_let_go() -> None:
    holders = LinkHolders[str]()
    assert holders.release([A, A], "hang") == {A: None}
    holders.hold([A, A], "hang")
    assert holders.release([A], "hang") == {A: None}
