"""The records of __transaction_state come back as they were written, and nothing else is read as one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.core.identifiers import TopicPartition
from reference_impl.core.transactions.transaction import Transaction, TransactionState
from reference_impl.wire.record_fields import UnreadableRecord
from reference_impl.wire.transaction_records import decode, transaction_record

TEXTS = st.text(max_size=20)
INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)


@st.composite
def transactions(draw: st.DrawFn) -> Transaction:
    state = draw(st.sampled_from(TransactionState))
    keys = st.builds(TopicPartition, TEXTS, st.integers(0, 2**31 - 1))
    return Transaction(
        transactional_id=draw(TEXTS),
        producer_id=draw(INT64),
        epoch=draw(st.integers(-1, 2**15 - 1)),
        timeout_ms=draw(INT32),
        state=state,
        partitions=frozenset() if state is TransactionState.EMPTY else draw(st.frozensets(keys, max_size=5)),
        updated_ms=draw(INT64),
        started_ms=draw(INT64),
        previous_id=draw(st.just(-1) | INT64),
        next_id=draw(st.just(-1) | INT64),
        client_version=draw(st.sampled_from([0, 2])),
    )


@given(transactions())
def test_a_transaction_comes_back_as_it_was_written(transaction: Transaction) -> None:
    transactional_id, stored = decode(*transaction.record())
    assert stored is not None
    assert Transaction.loaded(transactional_id, stored) == transaction


def test_a_tombstone_says_whose_transaction_is_forgotten() -> None:
    assert decode(*transaction_record("writer", None)) == ("writer", None)


@given(st.binary(max_size=40), st.binary(max_size=80) | st.none())
def test_what_is_read_is_written_as_it_was_and_all_else_refused_in_one_way(key: bytes, value: bytes | None) -> None:
    try:
        transactional_id, stored = decode(key, value)
    except UnreadableRecord:
        return
    written = transaction_record(transactional_id, stored)
    assert key.startswith(written.key)
    assert (value is None) == (written.value is None)


@given(transactions(), st.data())
def test_a_record_that_is_cut_short_is_refused(transaction: Transaction, data: st.DataObject) -> None:
    key, value = transaction.record()
    assert value is not None
    with pytest.raises(UnreadableRecord):
        decode(key, value[: data.draw(st.integers(0, len(value) - 1))])


def test_an_unknown_state_is_refused() -> None:
    key, value = Transaction(transactional_id="w", producer_id=1, timeout_ms=1).record()
    assert value is not None
    _, stored = decode(key, value[:16] + b"\x09" + value[17:])
    assert stored is not None
    with pytest.raises(UnreadableRecord, match="state 9"):
        Transaction.loaded("w", stored)
