"""The cache holds what is run later: jars, class archives, formatted storage. It is its user's alone."""

import stat
from pathlib import Path

from harness.user_cache import cache_directory, made_in_cache


def test_a_new_cache_is_its_users_alone(tmp_path: Path, open_umask: None) -> None:
    made = made_in_cache("kafka", {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert made == tmp_path / "cache" / "kafka-chaos" / "kafka"
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700
    assert made_in_cache("kafka", {"XDG_CACHE_HOME": str(tmp_path / "cache")}) == made


def test_a_cache_that_is_there_is_as_the_user_likes_it(tmp_path: Path) -> None:
    (tmp_path / "kafka-chaos").mkdir()
    (tmp_path / "kafka-chaos").chmod(0o755)
    made_in_cache("kafka", {"XDG_CACHE_HOME": str(tmp_path)})
    assert stat.S_IMODE((tmp_path / "kafka-chaos").stat().st_mode) == 0o755


def test_asking_where_the_cache_is_makes_nothing(tmp_path: Path) -> None:
    assert not cache_directory({"XDG_CACHE_HOME": str(tmp_path)}).exists()
