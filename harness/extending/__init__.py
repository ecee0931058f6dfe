"""What packages of other people may rely on (docs/extending.md): a module for each kind of thing they can add.

Whatever is imported here stays as it is within a minor version, and what changes after that stands in the changelog.
All else is ours to change. Nothing of kafka-chaos itself imports this package.
"""
