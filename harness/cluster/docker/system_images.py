"""Says which images the nodes of a system need: builds or pulls them, and checks beforehand that this can work."""

from collections.abc import Callable

from docker.errors import ImageNotFound

from harness.cluster.brokers.kafka import KafkaSystem
from harness.cluster.brokers.reference import ReferenceSystem
from harness.cluster.brokers.system import HasImage, System
from harness.cluster.docker import images
from harness.cluster.docker.engine import Engine, engine_errors, reason
from harness.errors import HarnessError


def provide_image(engine: Engine, system: System) -> str:
    """The image of the system's nodes, built or pulled if needed. Raises HarnessError."""
    public = _public_image(system)
    if public:
        return images.provide_public(engine, public)
    return images.provide(engine, _recipe(system))


def check_images(engine: Engine, system: System) -> None:
    """Raises HarnessError if an image that a run needs is neither at the engine nor can be pulled or built there.

    Builds and pulls nothing: for an image that is not at the engine, the engine asks its registry for the description.
    """
    _check_base(engine, "infra", images.infra_recipe)
    public = _public_image(system)
    if public:
        reason_missing = _why_missing(engine, public)
        if reason_missing is not None:
            raise HarnessError(
                f"image {public} is not at the Docker engine and cannot be pulled ({reason_missing}); "
                "load it with `docker load`, or name one that is there"
            )
    else:
        _check_base(engine, _kind(system), lambda: _recipe(system))


def _public_image(system: System) -> str:
    """Empty: the image is built from a recipe of ours."""
    if isinstance(system, HasImage):
        return system.image
    return system.spec.image if isinstance(system, KafkaSystem) else ""


def _kind(system: System) -> images.ImageKind:
    if isinstance(system, ReferenceSystem):
        return "reference"
    if isinstance(system, KafkaSystem):
        return "kafka"
    raise HarnessError(f"{system.title}: it names no image for its containers; use --world local")


def _recipe(system: System) -> images.Recipe:
    if isinstance(system, KafkaSystem):
        return images.kafka_recipe(system.home.libs)
    _kind(system)
    return images.reference_recipe()


def _check_base(engine: Engine, kind: images.ImageKind, recipe: Callable[[], images.Recipe]) -> None:
    base = images.base_of(kind)
    reason_missing = _why_missing(engine, base)
    if reason_missing is None or _is_here(engine, recipe().tag):
        return
    raise HarnessError(
        f"base image {base} is not at the Docker engine and cannot be pulled ({reason_missing}); "
        f"{images.BASE_VARIABLE} names the base image: .ci/prepare-docker in the project's repository builds "
        f"kafka-chaos-base:local, then export {images.BASE_VARIABLE}=kafka-chaos-base:local"
    )


def _why_missing(engine: Engine, image: str) -> str | None:
    """None: the image is at the engine, or its registry has it."""
    if _is_here(engine, image):
        return None
    try:
        with engine_errors(f"looking for image {image} in its registry"):
            engine.client.images.get_registry_data(image)
    except HarnessError as error:
        return reason(error.__cause__) if isinstance(error.__cause__, Exception) else str(error)
    return None


def _is_here(engine: Engine, image: str) -> bool:
    with engine_errors(f"looking for image {image}"):
        try:
            engine.client.images.get(image)
        except ImageNotFound:
            return False
    return True
