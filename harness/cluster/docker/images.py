"""Images by content: a tag is the hash of everything in the image, so it is built once and never outdated.

Only what is needed is downloaded: the base image can be a local one (KAFKA_CHAOS_BASE_IMAGE), the reference broker's
packages are those installed with the harness, and Kafka's jars come from the cache.
"""

import hashlib
import importlib.util
import io
import os
import re
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import Literal

from docker.errors import ImageNotFound

from harness.cluster.docker.engine import Engine, engine_errors
from harness.errors import HarnessError

BASE_VARIABLE = "KAFKA_CHAOS_BASE_IMAGE"
KIND = "kafka-chaos.image"  # the label of every image built here; its value is an ImageKind
ImageKind = Literal["infra", "reference", "kafka"]
_NEEDED = ("kafka-python", "crc32c", "cramjam")  # what the reference broker imports in addition to the standard library
_FROM = re.compile(r"^ARG BASE_IMAGE=(\S+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The complete contents of one image."""

    kind: ImageKind
    base: str
    files: Mapping[str, bytes]  # by path in the build context, including the Dockerfile

    @property
    def tag(self) -> str:
        digest = hashlib.sha256(self.base.encode())
        for name, content in sorted(self.files.items()):
            digest.update(f"\0{name}\0{len(content)}\0".encode())
            digest.update(content)
        return f"kafka-chaos-{self.kind}:{digest.hexdigest()[:16]}"


def infra_recipe() -> Recipe:
    return _recipe("infra", {})


def reference_recipe() -> Recipe:
    """The reference broker's package and its dependencies from this installation. Raises HarnessError off Linux."""
    if sys.platform != "linux":
        raise HarnessError("the reference broker's image is made of this machine's own packages; that needs Linux")
    spec = importlib.util.find_spec("reference_impl")
    assert spec is not None, "installed with the harness"
    assert spec.submodule_search_locations, "a package"
    package = Path(spec.submodule_search_locations[0])
    found = {f"packages/reference_impl/{name}": content for name, content in _below(package)}
    for name in _NEEDED:
        found |= {f"packages/{place}": content for place, content in _installed(name)}
    return _recipe("reference", found)


def kafka_recipe(libs: Path) -> Recipe:
    """Kafka from a folder of jars."""
    jars = {f"libs/{jar.name}": jar.read_bytes() for jar in sorted(libs.glob("*.jar"))}
    if not jars:
        raise HarnessError(f"{libs}: no jars there; `kafka-chaos fetch-kafka VERSION` brings them")
    return _recipe("kafka", jars)


def provide(engine: Engine, recipe: Recipe) -> str:
    """Returns the tag of the recipe's image; builds it if needed. Raises HarnessError with the builder's
    last output."""
    try:
        with engine_errors(f"asking for image {recipe.tag}"):
            engine.client.images.get(recipe.tag)
    except HarnessError as error:
        if not isinstance(error.__cause__, ImageNotFound):
            raise
        _build(engine, recipe)
    return recipe.tag


def provide_public(engine: Engine, reference: str) -> str:
    """Makes a public image available, such as Kafka's official one; pulls it if needed."""
    with engine_errors(f"image {reference} is not here and cannot be pulled"):
        try:
            engine.client.images.get(reference)
        except ImageNotFound:
            name, _, tag = reference.partition(":")
            engine.client.images.pull(name, tag=tag or "latest")
    return reference


def _build(engine: Engine, recipe: Recipe) -> None:
    with engine_errors(f"building {recipe.tag}"):
        answers = engine.client.api.build(
            fileobj=io.BytesIO(_context(recipe.files)),
            custom_context=True,
            tag=recipe.tag,
            buildargs={"BASE_IMAGE": recipe.base},
            labels={KIND: recipe.kind},
            rm=True,
            forcerm=True,
            decode=True,
        )
        output: list[str] = []
        for answer in answers:
            output.extend(str(answer.get("stream", "")).split("\n"))
            if "error" in answer:
                raise HarnessError(_failure(recipe, output, str(answer["error"])))


def _failure(recipe: Recipe, output: list[str], error: str) -> str:
    lines = [line.strip() for line in output if line.strip()]
    if lines and lines[-1].startswith("Step") and "FROM" in lines[-1]:
        return (
            f"base image {recipe.base} is not here and cannot be pulled ({' '.join(error.split())[:200]}); "
            f"name one that is here with {BASE_VARIABLE}"
        )
    return (
        f"building {recipe.tag} from {recipe.base}: {' '.join(error.split())[:300]}; before: {' | '.join(lines[-4:])}"
    )


def base_of(kind: ImageKind) -> str:
    """The image that images of this kind are built on: that of KAFKA_CHAOS_BASE_IMAGE, or the Dockerfile's default."""
    default = _FROM.search(_dockerfile(kind))
    assert default is not None, "each Dockerfile names its base image"
    # The installed packages contain code for this Python version, so the default base image has the same one.
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return os.environ.get(BASE_VARIABLE) or default[1].replace("${PYTHON_VERSION}", python)


def _recipe(kind: ImageKind, found: Mapping[str, bytes]) -> Recipe:
    return Recipe(kind=kind, base=base_of(kind), files={**found, "Dockerfile": _dockerfile(kind).encode()})


def _dockerfile(kind: ImageKind) -> str:
    return (files("harness.cluster.docker") / "dockerfiles" / f"{kind}.Dockerfile").read_text(encoding="utf-8")


def _below(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(folder).as_posix(), path.read_bytes()


def _installed(name: str) -> Iterator[tuple[str, bytes]]:
    """The files of one installed package, without scripts and bytecode."""
    try:
        listed = distribution(name).files or []
    except PackageNotFoundError:
        raise HarnessError(f"{name} is not installed beside the harness, and the reference broker needs it") from None
    for file in listed:
        if ".." not in file.parts and "__pycache__" not in file.parts:
            yield file.as_posix(), Path(str(file.locate())).read_bytes()


def _context(found: Mapping[str, bytes]) -> bytes:
    """Times, owners and modes are constant, so that the engine's layer cache works too."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in sorted(found.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
