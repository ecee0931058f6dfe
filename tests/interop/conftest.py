"""Where the commands of these tests are started."""

from tests.end_to_end.conftest import fresh_shell as fresh_shell
