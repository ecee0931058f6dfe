"""A check's JVM has the jars that it uses, and those that nobody knows."""

from pathlib import Path

from harness.checks.spark.class_path import LEFT_OUT, class_path
from harness.checks.spark.jvm import _jars


def test_jars_of_families_that_no_check_uses_are_left_out_and_all_others_stay(tmp_path: Path) -> None:
    names = [
        "spark-core_2.13.jar",
        "kubernetes-client-7.jar",
        "a-new-one-1.jar",
        "spark-mllib-local_2.13.jar",
        "note.txt",
    ]
    for name in names:
        (tmp_path / name).touch()

    assert class_path(tmp_path).split(":") == [str(tmp_path / "a-new-one-1.jar"), str(tmp_path / "spark-core_2.13.jar")]


def test_every_family_is_among_the_jars_of_this_pyspark() -> None:
    names = [jar.name for jar in _jars().glob("*.jar")]
    assert [family for family in LEFT_OUT if not any(name.startswith(family) for name in names)] == []
