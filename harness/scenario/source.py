"""A scenario's file while it is read: reading goes on after what is wrong, so that all of it is told at once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness.errors import Place, Problem, Problems, UsageError
from harness.scenario.places import Places


class Source:
    """A file while it is read: where things stand in it, and all that is wrong with it."""

    def __init__(self, text: str, file: str) -> None:
        self.places = Places(text=text, file=file)
        self.problems: list[Problem] = []

    def wrong(self, place: Place, message: str) -> None:
        self.problems.append(Problem(place=place, what=message))

    @contextmanager
    def telling(self, place: Callable[[], Place]) -> Iterator[None]:
        """What is refused inside is one more problem, at `place`, which is looked for only then; reading goes on."""
        try:
            yield
        except Problems as error:
            self.problems.extend(error.problems)
        except (UsageError, ValueError) as error:
            self.wrong(place(), str(error))
