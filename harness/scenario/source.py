"""A scenario's file while it is read: reading continues after an error, so that all errors are reported at once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness.errors import Place, Problem, Problems, UsageError
from harness.scenario.places import Places


class Source:
    """A file while it is read: the places in it, and all its errors."""

    def __init__(self, text: str, file: str) -> None:
        self.places = Places(text=text, file=file)
        self.problems: list[Problem] = []

    def wrong(self, place: Place, message: str) -> None:
        self.problems.append(Problem(place=place, what=message))

    @contextmanager
    def telling(self, place: Callable[[], Place]) -> Iterator[None]:
        """Turns an error inside the block into a problem at `place`, which is searched only then; reading continues."""
        try:
            yield
        except Problems as error:
            self.problems.extend(error.problems)
        except (UsageError, ValueError) as error:
            self.wrong(place(), str(error))
