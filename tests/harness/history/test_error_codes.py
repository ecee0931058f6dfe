"""Whatever a broker answers by one of Kafka's codes is told by a name of its own, and in words."""

from typing import Any

import kafka.errors

from harness.history.facts.error_codes import error_code


def _code_of(kind: Any) -> int | None:
    code = getattr(kind, "errno", None)
    return code if isinstance(code, int) and code != 0 else None


CODES = {code for kind in vars(kafka.errors).values() if (code := _code_of(kind)) is not None}


def test_each_code_that_a_client_library_knows_has_a_name_of_its_own_and_a_meaning() -> None:
    assert len(CODES) > 100
    known_codes = {code: error_code(code) for code in CODES}
    assert [code for code, known in known_codes.items() if not known.meaning] == []
    assert len({known.name for known in known_codes.values()}) == len(CODES)


def test_a_code_that_no_kafka_has_keeps_its_number() -> None:
    assert str(error_code(31_999)) == "error (31999)"
