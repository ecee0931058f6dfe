"""A run's journals, damaged before it is sealed: an error with the place, or a verdict that names what is missing.

Never a finding against the system: neither values that nobody sent, nor lost records, nor a pass.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.history_writing import write_run
from harness import compose
from harness.checks.judge import Judgement, judge_many
from harness.errors import HarnessError
from harness.history.journals.controller_rows import BOOKS, ROWS
from harness.history.journals.journal_files import opened_journals
from harness.history.run_folder import RunFolder
from harness.history.sealed.sealing import seal
from harness.verdict import Verdict

Judged = Mapping[str, tuple[RunFolder, Judgement]]
EVERY = ["producer-0.jsonl", "consumer-0.jsonl", "final-read.jsonl"]


def complete_run(path: Path) -> RunFolder:
    """A complete run that was not sealed; all that it collected is among the controller's rows."""
    write_run(path, 2_000)
    folder = RunFolder(path)
    (folder.history / BOOKS).mkdir(exist_ok=True)
    (folder.history / BOOKS / ROWS).touch()
    folder.update(journals=opened_journals(folder), collected=True)
    return folder


def old_run(path: Path) -> RunFolder:
    """The same of before there was a list of journals, and before these had a first and a last line."""
    folder = complete_run(path)
    for journal in folder.history.glob("*.jsonl"):
        lines = lines_of(journal)
        journal.write_bytes(b"".join(line for line in lines if not line.startswith((b'["J"', b'["F"'))))
    folder.update(journals={})
    return folder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return complete_run(tmp_path / "run")


@pytest.fixture
def old(tmp_path: Path) -> RunFolder:
    return old_run(tmp_path / "run")


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Runs with what they came to, all judged as one job; the damage is that of the test that looks at it."""
    place = tmp_path_factory.mktemp("damaged")
    runs = {"whole": complete_run(place / "whole"), "old": old_run(place / "old")}
    for name in EVERY:
        without_end = runs[f"{name} without its end"] = complete_run(place / f"{name}-without-end")
        without_end.update(journals={})
        lines = lines_of(without_end.history / name)
        (without_end.history / name).write_bytes(b"".join(lines[: len(lines) // 2 // 2 * 2]))
        cut = runs[f"old {name} cut within a line"] = old_run(place / f"{name}-cut")
        halved(cut.history / name)
    stateless = runs["no state"] = complete_run(place / "stateless")
    rows = [line for line in lines_of(stateless.history / ROWS) if b'"partition_states"' not in line]
    (stateless.history / ROWS).write_bytes(b"".join(rows))
    stateless.update(journals={})
    judgements = judge_many([compose.sealed(run.path).path for run in runs.values()], spark)
    return {name: (run, judgement) for (name, run), judgement in zip(runs.items(), judgements, strict=True)}


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def halved(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


# ---- of a run that keeps a list of its journals


def test_whole_journals_have_their_ends_in_the_tables_and_pass(judged: Judged) -> None:
    run, judgement = judged["whole"]

    assert judgement.verdict is Verdict.PASS, judgement.reasons
    assert set(run.table("processes").column("journal_complete").to_pylist()) == {True}


@pytest.mark.parametrize("name", [*EVERY, ROWS])
@pytest.mark.parametrize("harm", [Path.unlink, halved], ids=["missing", "halved"])
def test_a_journal_that_is_missing_or_halved_is_named_and_nothing_is_judged(
    run: RunFolder, name: str, harm: Callable[[Path], None]
) -> None:
    harm(run.history / name)

    with pytest.raises(HarnessError, match=rf"^{run.history / name} (is missing|has \d+ bytes, and had \d+)[^\n]*$"):
        compose.sealed(run.path)

    assert not run.has_table("records")


@pytest.mark.parametrize("name", [*EVERY, ROWS])
def test_a_line_that_cannot_be_read_in_the_middle_is_named(run: RunFolder, name: str) -> None:
    path = run.history / name
    lines = lines_of(path)
    place = len(lines) // 2
    lines[place] = b"~" * (len(lines[place]) - 1) + b"\n"
    path.write_bytes(b"".join(lines))

    with pytest.raises(HarnessError, match=rf"^{path}:{place + 1}: [^\n]*lines follow it[^\n]*$"):
        compose.sealed(run.path)


@pytest.mark.parametrize("name", EVERY)
def test_a_journal_with_a_line_less_says_so_itself(run: RunFolder, name: str) -> None:
    lines = lines_of(run.history / name)
    place = next(place for place, line in enumerate(lines) if line.startswith(b'["I"'))
    (run.history / name).write_bytes(b"".join([*lines[:place], *lines[place + 2 :]]))
    run.update(journals={})

    with pytest.raises(HarnessError, match=rf"^{run.history / name}:\d+: [^\n]*lines were written before this one"):
        compose.sealed(run.path)


# ---- of a run whose harness was killed, or an older one: nobody kept how long the journals were


@pytest.mark.parametrize("name", EVERY)
def test_a_journal_without_its_end_makes_the_run_inconclusive_and_accuses_nobody(judged: Judged, name: str) -> None:
    run, judgement = judged[f"{name} without its end"]

    assert judgement.verdict is Verdict.INCONCLUSIVE, judgement.sentence
    assert any("1 journal has no end" in reason for reason in judgement.reasons)
    assert {each.classification for _, each in judgement.findings} <= {"observation"}
    complete = run.table("processes").select(["client", "journal_complete"]).to_pylist()
    assert [row["client"] for row in complete if row["journal_complete"] is False] == [Path(name).stem]


@pytest.mark.parametrize("name", EVERY)
def test_an_older_journal_that_was_cut_within_a_line_is_one_without_its_end(judged: Judged, name: str) -> None:
    _, judgement = judged[f"old {name} cut within a line"]

    assert judgement.verdict is Verdict.INCONCLUSIVE, judgement.sentence
    assert {each.classification for _, each in judgement.findings} <= {"observation"}


def test_of_older_journals_it_is_not_known_whether_they_are_whole(judged: Judged) -> None:
    old, judgement = judged["old"]

    assert judgement.verdict is Verdict.PASS, judgement.reasons
    assert set(old.table("processes").column("journal_complete").to_pylist()) == {None}


@pytest.mark.parametrize("name", EVERY)
def test_a_journal_that_a_worker_or_the_final_read_must_have_opened_is_named(old: RunFolder, name: str) -> None:
    (old.path / "workers").mkdir()
    for path in old.history.glob("*-?.jsonl"):
        (old.path / "workers" / f"{path.stem}.json").write_text("{}")
    old.update(phases=[{"name": name, "time_ns": 1} for name in ("act", "drain", "read back", "collect", "seal")])
    (old.history / name).unlink()

    with pytest.raises(HarnessError, match=rf"^{old.history / name} is missing"):
        compose.sealed(old.path)


def test_a_run_of_which_no_state_is_known_is_inconclusive(judged: Judged) -> None:
    _, judgement = judged["no state"]

    assert judgement.verdict is Verdict.INCONCLUSIVE, judgement.sentence
    assert any(reason.startswith("No state of ") for reason in judgement.reasons)


def test_what_does_not_fit_while_a_folder_is_sealed_is_one_line(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumbling(folder: RunFolder) -> None:
        raise KeyError(folder.path.name)

    monkeypatch.setattr("harness.controller.collection.seal", stumbling)

    with pytest.raises(HarnessError, match=r"^[^\n]*what its journals hold does not fit together \(KeyError[^\n]*$"):
        compose.sealed(run.path)


def test_the_seal_says_the_same_when_it_is_repeated(run: RunFolder) -> None:
    seal(run)
    before = run.run

    seal(run)

    assert run.run == before
