"""A session lives as long as it is touched in time."""

from reference_impl.coordination.sessions import Sessions, password_of


def test_a_session_expires_a_full_timeout_after_its_last_sign_of_life() -> None:
    sessions = Sessions()
    for session_id, timeout_ms in ((1, 1000), (2, 3000)):
        sessions.open(session_id, timeout_ms=timeout_ms)
        sessions.touch(session_id, now=10.0)
    assert sessions.next_deadline() == 11.0
    assert sessions.expired(now=10.999) == []
    assert sessions.expired(now=11.0) == [1]
    sessions.touch(1, now=10.9)
    assert sessions.expired(now=11.0) == []
    assert sessions.expired(now=13.0) == [1, 2]


def test_a_closed_session_is_not_waited_for() -> None:
    sessions = Sessions()
    sessions.open(1, timeout_ms=1000)
    sessions.close(1)
    assert 1 not in sessions
    assert sessions.next_deadline() is None


def test_after_a_restart_everybody_has_a_full_timeout_again() -> None:
    sessions = Sessions()
    sessions.open(1, timeout_ms=1000)
    sessions.restart(now=100.0)
    assert sessions.next_deadline() == 101.0


def test_passwords_differ_and_are_the_same_after_a_restart() -> None:
    assert password_of(1) != password_of(2)
    assert password_of(1) == password_of(1)
    assert len(password_of(1)) == 16
