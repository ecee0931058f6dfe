"""The cache holds what is run later: jars, class archives, formatted storage. It is its user's alone."""

import os
import stat
from pathlib import Path

import pytest

from harness.checks.spark.class_archive import class_archive
from harness.errors import HarnessError
from harness.host.user_folders import cache_directory, made_in_cache, refuse_others


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


@pytest.mark.parametrize("part", ["", "kafka-chaos", "kafka-chaos/kafka"])
def test_a_cache_that_others_may_write_to_is_refused(tmp_path: Path, part: str) -> None:
    cache = tmp_path / "cache"
    environment = {"XDG_CACHE_HOME": str(cache)}
    made_in_cache("kafka", environment)
    cache.chmod(0o755)
    refuse_others(environment)
    (cache / part).chmod(0o777)
    with pytest.raises(HarnessError, match=r"may be written to by others \(mode 0777\)") as refused:
        made_in_cache("formatted", environment)
    assert str(cache / part) in str(refused.value)
    assert not (cache / "kafka-chaos" / "formatted").exists()
    assert class_archive(home=tmp_path, version=21, class_path="", options=(), environment=environment) is None
    assert not (cache / "kafka-chaos" / "spark-classes").exists()


@pytest.mark.parametrize("part", ["4.3.1", "4.3.1/libs", "4.3.1/libs/kafka.jar"])
def test_what_others_may_change_deep_in_the_cache_is_not_run(tmp_path: Path, part: str) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    libs = made_in_cache("kafka", environment) / "4.3.1" / "libs"
    libs.mkdir(parents=True, mode=0o700)
    (libs / "kafka.jar").write_bytes(b"PK")
    (libs / "latest.jar").symlink_to("kafka.jar")
    for folder in (cache_directory(environment), libs.parents[1], libs.parent, libs):
        folder.chmod(0o755)
    refuse_others(environment)
    place = libs.parents[1] / part
    place.chmod(place.stat().st_mode | stat.S_IWOTH)
    with pytest.raises(HarnessError, match=r"may be written to by others") as refused:
        refuse_others(environment)
    assert f"{place} " in str(refused.value)


def test_a_cache_in_a_folder_of_everybody_is_its_users_own_if_nobody_can_replace_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert made_in_cache("kafka", {"XDG_CACHE_HOME": str(tmp_path)}).is_dir()


def test_a_cache_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_in_cache("kafka", {"XDG_CACHE_HOME": str(tmp_path)})
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr("harness.host.user_folders.os.geteuid", lambda: owner + 1)
    if owner == 0:
        refuse_others({"XDG_CACHE_HOME": str(tmp_path)})  # root may change everything anyway
    else:
        with pytest.raises(HarnessError, match="belongs to user"):
            refuse_others({"XDG_CACHE_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("link", "opened"),
    [
        ("kafka", "kept"),
        ("kafka/4.3.1", "kept"),
        ("kafka/4.3.1", "kept/jars"),
        ("kafka/4.3.1", "kept/jars/a.jar"),
        ("kafka/4.3.1/a.jar", "kept/jars"),
        ("kafka/4.3.1/a.jar", "kept/jars/a.jar"),
    ],
)
def test_what_a_link_of_the_cache_leads_to_is_held_to_the_same(tmp_path: Path, link: str, opened: str) -> None:
    jars = tmp_path / "kept" / "jars"
    jars.mkdir(parents=True)
    (jars / "a.jar").touch(mode=0o644)
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    place = made_in_cache("kafka", environment).parent / link
    (cache_directory(environment) / "kafka").rmdir()
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    place.symlink_to(jars / "a.jar" if link.endswith(".jar") else jars)
    refuse_others(environment)

    (tmp_path / opened).chmod(0o777)

    with pytest.raises(HarnessError, match=f"{opened} may be written to by others"):
        refuse_others(environment)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_another_user_owns_is_not_run_even_where_he_cannot_come_to_it(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    jar = made_in_cache("kafka", environment) / "4.3.1" / "a.jar"
    jar.parent.mkdir(mode=0o700)
    jar.touch(mode=0o644)  # he may have another name for it, or have it open
    refuse_others(environment)
    os.chown(jar, 12345, 12345)
    with pytest.raises(HarnessError, match=r"a\.jar belongs to user 12345"):
        refuse_others(environment)
