"""The list of runs fits where it is read: 80 columns of a terminal, or a pipe, where nothing is cut."""

from harness.cli.listing import table

ROW = {
    "run": "20260101-000000-leader-crash-acks-all",
    "time (UTC)": "01 Jan 00:00",
    "system": "kafka:4.3.1",
    "verdict": "inconclusive",
    "violations": "0",
    "permitted": "5",
}
LONG = ROW | {"run": "20260101-000000-flaw-high-watermark-truncation-follower", "verdict": "violation"}


def test_in_a_pipe_every_column_is_there_and_nothing_is_cut() -> None:
    heads, first, second = table([ROW, LONG], width=0)
    assert heads.split() == ["run", "time", "(UTC)", "system", "verdict", "violations", "permitted"]
    assert first.split() == [*ROW["run"].split(), "01", "Jan", "00:00", "kafka:4.3.1", "inconclusive", "0", "5"]
    assert LONG["run"] in second


def test_at_80_columns_the_less_needed_columns_go_first_and_a_name_is_never_cut() -> None:
    for rows, heads in (([ROW], "run time (UTC) system verdict"), ([LONG], "run system verdict")):
        lines = table(rows, width=80)
        assert lines[0].split() == heads.split()
        assert all(len(line) <= 80 for line in lines)
        assert rows[0]["run"] in lines[1]
