"""`make nightly-world`: histories of the world before the checks, on seeds that nobody has judged yet; prints counts.

The seeds follow from the date, or are given. Exit code 1 says that a verdict was wrong, and each such seed is printed
with the command that repeats it; 3 that too much stayed undecided; 2 that the arguments make no sense.
"""

import argparse
import multiprocessing
import os
import queue
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from harness.host.scratch import scratch_folder
from tests.world.drawing import DRAWN, RELEASES_BEFORE_EPOCHS
from tests.world.histories import History, history
from tests.world.judging import judged
from tests.world.tally import Tally, tally
from tests.world.visibility import BEFORE_EPOCHS, FULL, OF_SENDS, UNORDERED, WITHHELD, Visibility

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Batch = tuple[str, Sequence[int]]  # a world, and seeds
BATCH = 100  # seeds, with all their sights one Spark job
A_NIGHT = 100_000  # seeds that each day has for its own
FIRST_DAY = date(2026, 1, 1)
FIRST_FRESH = 1_000_000
UNDECIDED_MAX = 0.05
WRONG, TOO_MUCH_UNDECIDED = 1, 3


def fresh_first(day: date) -> int:
    """The first seed of a day: no other day has it, and the tests have none of them."""
    return FIRST_FRESH + (day - FIRST_DAY).days * A_NIGHT


def sights(one: History) -> Iterator[Visibility]:
    """All that there is; what some would withhold; and, of every fifth, as nodes that no fault ended."""
    seed = one.setup.seed
    yield BEFORE_EPOCHS if one.setup.release in RELEASES_BEFORE_EPOCHS else FULL
    yield withheld(one)
    if seed % 5 == 0 and not one.setup.ends:
        yield UNORDERED


def withheld(one: History) -> Visibility:
    """What a group's members read is known wherever there is a group."""
    sights = [each for each in WITHHELD if each.reads or not one.setup.members]
    if one.setup.in_flight is not None:
        sights += [*OF_SENDS, *OF_SENDS]
    return sights[one.setup.seed % len(sights)]


def judged_batch(spark: "SparkSession", name: str, seeds: Sequence[int]) -> Tally:
    played = [history(seed, name) for seed in seeds]
    cases = [(one, sight) for one in played for sight in sights(one)]
    with scratch_folder("kafka-chaos-world-") as folder:
        return tally(judged(spark, folder, cases))


@contextmanager
def session() -> "Iterator[SparkSession]":
    """As the tests have it: plans for many small histories."""
    from harness.checks.spark.session import spark_session

    with spark_session(master="local[2]") as spark:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        spark.conf.set("spark.sql.adaptive.enabled", "false")
        yield spark


def _work(batches: "multiprocessing.Queue[Batch | None]", done: "multiprocessing.Queue[tuple[str, Tally]]") -> None:
    """One process: a Spark session of its own, and batches until there are no more, or nobody that waits for them."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    with session() as spark:
        while parent.is_alive() and (batch := batches.get()) is not None:
            done.put((batch[0], judged_batch(spark, *batch)))


def shared_out(names: Sequence[str], seeds: Sequence[int]) -> list[Batch]:
    """Each seed is a history of one world: they take turns."""
    count = len(names)
    return [
        (name, seeds[place::count][at : at + BATCH])
        for place, name in enumerate(names)
        for at in range(0, len(seeds[place::count]), BATCH)
    ]


def judge_all(names: Sequence[str], seeds: Sequence[int], jobs: int) -> dict[str, Tally]:
    context = multiprocessing.get_context("spawn")
    batches, done = context.Queue(), context.Queue()
    parts = shared_out(names, seeds)
    workers = [context.Process(target=_work, args=(batches, done), daemon=True) for _ in range(min(jobs, len(parts)))]
    for each in (*parts, *(None for _ in workers)):
        batches.put(each)
    for worker in workers:
        worker.start()
    total = {name: Tally() for name in names}
    for number in range(len(parts)):
        name, found = _next(done, workers)
        total[name].plus(found)
        progress = f"{number + 1} of {len(parts)} batches: {name}, {found.histories} judged, {len(found.wrong)} wrong"
        print(progress, *(each.text for each in found.wrong), sep="\n", file=sys.stderr, flush=True)
    for worker in workers:
        worker.join()
    return total


def _next(
    done: "multiprocessing.Queue[tuple[str, Tally]]", workers: "Sequence[multiprocessing.process.BaseProcess]"
) -> tuple[str, Tally]:
    """The next batch's; a worker that ends with an error ends the night."""
    while True:
        try:
            return done.get(timeout=5)
        except queue.Empty:
            if any(worker.exitcode for worker in workers):
                raise RuntimeError("a process that judges histories ended with an error: see above") from None


def lines(name: str, total: Tally) -> list[str]:
    """What is printed of a world: counts first, then each wrong verdict with the command that repeats it."""
    still = total.undecided.total()
    said = sorted((check, count) for (check, said_as), count in total.said.items() if said_as == "violation")
    truth = ", ".join(f"{count} {verdict}" for verdict, count in sorted(total.truth.items())) or "none"
    text = [
        f"{name}: {total.histories} histories judged",
        f"in truth: {truth}",
        "violations by check: " + (", ".join(f"{check} {count}" for check, count in said) or "none"),
        f"passed over: {total.of('passed over')}",
        f"invented: {total.of('invented')}",
        f"undecided with full evidence: {still} of {total.asked} ({_share(still, total):.1%})",
        *(f"  {count} ({_share(count, total):.1%}): {', '.join(why)}" for why, count in total.undecided.most_common()),
    ]
    for seed in sorted({each.seed for each in total.wrong}):
        of_seed = [each for each in total.wrong if each.seed == seed]
        text += [
            f"WRONG seed {seed}: {of_seed[0].kind}: {of_seed[0].text}",
            f"  repeat: make nightly-world WORLDS={name} SEED={seed} HISTORIES=1; "
            f"its story: python -m tests.world.as_text {seed} {name}",
        ]
    return text


def _share(count: int, total: Tally) -> float:
    return count / total.asked if total.asked else 0.0


def exit_code(totals: Iterable[Tally]) -> int:
    totals = list(totals)
    if any(total.wrong for total in totals):
        return WRONG
    open_ends = any(total.undecided.total() > UNDECIDED_MAX * total.asked for total in totals)
    return TOO_MUCH_UNDECIDED if open_ends else 0


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make nightly-world", description=__doc__.split("\n\n")[0])
    parser.add_argument("--seed", type=int, help="the first seed (default: by the date)")
    parser.add_argument("--histories", type=_count, default=10_000, help="how many seeds (default: 10000)")
    parser.add_argument("--jobs", type=_count, default=max(1, (os.cpu_count() or 2) // 2), help="processes")
    parser.add_argument("--worlds", nargs="+", choices=list(DRAWN), default=list(DRAWN), help="which (default: all)")
    asked = parser.parse_args(arguments)
    first = fresh_first(datetime.now(UTC).date()) if asked.seed is None else asked.seed
    seeds = range(first, first + asked.histories)
    totals = judge_all(asked.worlds, seeds, asked.jobs)
    print(f"seeds {seeds[0]} to {seeds[-1]}")
    for name, total in totals.items():
        print("\n".join(lines(name, total)))
    return exit_code(totals.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
