"""Turns come in the order in which they were taken, however earlier ones end."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from reference_impl.core.identifiers import TopicPartition
from reference_impl.runtime.decoding import Turns
from tests.waiting import PATIENCE_S

KEYS = [TopicPartition("orders", number) for number in range(3)]
_wanted = st.lists(
    st.tuples(st.sets(st.sampled_from(KEYS), min_size=1), st.integers(0, 5), st.booleans()), min_size=1, max_size=12
)


@given(wanted=_wanted)
def test_for_each_partition_who_came_first_goes_first_and_who_gives_up_holds_nobody_up(
    wanted: list[tuple[set[TopicPartition], int, bool]],
) -> None:
    gone: dict[TopicPartition, list[int]] = {key: [] for key in KEYS}

    async def take_all() -> None:
        turns = Turns()

        async def wait_and_go(number: int, keys: set[TopicPartition], steps: int) -> None:
            turn = turns_taken[number]
            try:
                for _ in range(steps):  # a look of any length
                    await asyncio.sleep(0)
                await turn.comes()
                for key in keys:
                    gone[key].append(number)
            finally:
                turn.end()

        turns_taken = [turns.take(keys) for keys, _, _ in wanted]
        tasks = [
            asyncio.ensure_future(wait_and_go(number, keys, steps)) for number, (keys, steps, _) in enumerate(wanted)
        ]
        await asyncio.sleep(0)
        for task, (_, _, gives_up) in zip(tasks, wanted, strict=True):
            if gives_up:
                task.cancel()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*tasks, return_exceptions=True)
            while turns.is_taken(KEYS):
                await asyncio.sleep(0)

    asyncio.run(take_all())
    assert all(numbers == sorted(numbers) for numbers in gone.values())
    stayed = {number for number, (_, _, gives_up) in enumerate(wanted) if not gives_up}
    assert stayed <= {number for numbers in gone.values() for number in numbers}
