"""`python -m harness` is the command `kafka-chaos`; workers are started this way."""

from harness.cli import main

if __name__ == "__main__":
    main()
