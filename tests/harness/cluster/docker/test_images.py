"""An image's tag is the hash of its contents; a built image runs."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cluster.docker import images
from harness.cluster.docker.engine import Engine
from harness.errors import HarnessError


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    (tmp_path / "kafka_2.13-9.9.9.jar").write_bytes(b"a jar")
    (tmp_path / "manifest.json").write_text("{}")
    return tmp_path


def test_a_tag_changes_with_the_base_and_with_every_file_and_with_nothing_else(
    jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(images.BASE_VARIABLE, "base:1")
    recipe = images.kafka_recipe(jars)
    assert recipe.tag == images.kafka_recipe(jars).tag
    assert recipe.tag.startswith("kafka-chaos-kafka:")
    tags = {recipe.tag}
    (jars / "manifest.json").write_text("{ }")
    assert images.kafka_recipe(jars).tag in tags, "only the jars go into the image"
    (jars / "kafka_2.13-9.9.9.jar").write_bytes(b"another jar")
    tags.add(images.kafka_recipe(jars).tag)
    (jars / "more.jar").write_bytes(b"")
    tags.add(images.kafka_recipe(jars).tag)
    monkeypatch.setenv(images.BASE_VARIABLE, "base:2")
    tags.add(images.kafka_recipe(jars).tag)
    assert len(tags) == 4


def test_without_a_word_the_base_is_a_public_image_with_the_harness_own_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(images.BASE_VARIABLE, raising=False)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert images.infra_recipe().base == f"python:{python}-slim-bookworm"
    assert images.reference_recipe().base == f"python:{python}-slim-bookworm"


def test_the_reference_image_holds_the_package_and_what_it_needs_and_no_bytecode() -> None:
    files = images.reference_recipe().files
    for needed in (
        "packages/reference_impl/__main__.py",
        "packages/reference_impl/wire/schemas/AlterPartitionRequest.json",
        "packages/kafka/__init__.py",
        "packages/crc32c/__init__.py",
    ):
        assert needed in files
    assert not [name for name in files if name.endswith(".pyc") or ".." in name]


def test_the_reference_image_holds_every_package_that_the_reference_broker_imports() -> None:
    files = images.reference_recipe().files
    imported = {
        name.partition(".")[0]
        for path, content in files.items()
        if path.startswith("packages/reference_impl/") and path.endswith(".py")
        for name in _imported(ast.parse(content))
    }

    assert {name for name in imported if not any(path.startswith(f"packages/{name}/") for path in files)} <= (
        sys.stdlib_module_names
    )


def _imported(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_a_folder_without_jars_says_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="no jars there; `kafka-chaos fetch-kafka VERSION` brings them"):
        images.kafka_recipe(tmp_path)


@pytest.fixture
def built(engine: Engine) -> Iterator[list[str]]:
    """Tags to remove afterwards."""
    tags: list[str] = []
    yield tags
    for tag in tags:
        engine.client.images.remove(tag, force=True)


def _output(engine: Engine, image: str, *command: str) -> str:
    reported: bytes = engine.client.containers.run(image, list(command), remove=True, network_mode="none")
    return reported.decode()


def test_the_reference_broker_starts_from_its_image(engine: Engine, infra_image: str) -> None:
    image = images.provide(engine, images.reference_recipe())
    assert "run one broker" in _output(engine, image, "python3", "-m", "reference_impl", "--help")


def test_kafkas_jars_are_in_its_image_beside_a_java(
    engine: Engine, infra_image: str, jars: Path, built: list[str]
) -> None:
    recipe = images.kafka_recipe(jars)
    built.append(images.provide(engine, recipe))
    reported = _output(engine, recipe.tag, "sh", "-c", "java -version 2>&1; ls /opt/kafka/libs")
    assert reported.splitlines()[-1] == "kafka_2.13-9.9.9.jar"
    first = engine.client.images.get(recipe.tag).id
    assert images.provide(engine, recipe) == recipe.tag
    assert engine.client.images.get(recipe.tag).id == first, "it was not built again"


def test_a_build_that_fails_says_at_what(engine: Engine, infra_image: str) -> None:
    recipe = images.infra_recipe()
    dockerfile = recipe.files["Dockerfile"] + b"RUN echo almost there && exit 7\n"
    with pytest.raises(HarnessError, match=r"returned a non-zero code: 7.*almost there"):
        images.provide(engine, replace(recipe, files={"Dockerfile": dockerfile}))


def test_a_base_image_that_is_nowhere_is_named_with_the_remedy(engine: Engine) -> None:
    recipe = replace(images.infra_recipe(), base="127.0.0.1:1/kafka-chaos-nowhere:0")
    with pytest.raises(HarnessError, match=r"base image 127.0.0.1:1/.* cannot be pulled .*KAFKA_CHAOS_BASE_IMAGE"):
        images.provide(engine, recipe)
    with pytest.raises(HarnessError, match=r"image 127.0.0.1:1/nowhere:0 is not here and cannot be pulled"):
        images.provide_public(engine, "127.0.0.1:1/nowhere:0")


def test_an_image_that_is_here_is_not_pulled(engine: Engine, infra_image: str) -> None:
    assert images.provide_public(engine, infra_image) == infra_image
