"""Rejects null where Kafka's schema does not allow it; kafka-python would decode null into any string, array or struct.

Handlers therefore never find None in place of a name or a list.
"""

from typing import Any, NamedTuple


class _Check(NamedTuple):
    name: str
    nullable: bool
    inner: Any  # the schema of the contents; None for plain values
    many: bool


_checks: dict[tuple[int, int], tuple[_Check, ...]] = {}


def refuse_missing_values(message: Any, version: int) -> None:
    """Raises ValueError if a value is null and must not be."""
    _refuse(message, message._struct, version)


def _refuse(message: Any, schema: Any, version: int) -> None:
    for check in _checks_of(schema, version):
        value = getattr(message, check.name)
        if value is None:
            if not check.nullable:
                raise ValueError(f"{check.name} is null")
        elif check.many:
            if check.inner is None:
                if None in value:
                    raise ValueError(f"an element of {check.name} is null")
            else:
                for element in value:
                    _refuse(element, check.inner, version)
        elif check.inner is not None:
            _refuse(value, check.inner, version)


def _checks_of(schema: Any, version: int) -> tuple[_Check, ...]:
    key = (id(schema), version)  # never evicted: schemas live as long as their classes
    checks = _checks.get(key)
    if checks is None:
        fields = [field for field in schema.fields.values() if field.for_version_q(version)]
        checks = _checks[key] = tuple(check for field in fields if (check := _check_of(field, version)) is not None)
    return checks


def _check_of(field: Any, version: int) -> _Check | None:
    # An omitted tagged field has its default, which may be None whatever the schema says.
    nullable = field.nullable_for_version_q(version) or field.tagged_field_q(version)
    if field.is_array():
        inner = field.array_of if field.is_struct_array() else None
        if inner is None and field.type_str != "[]string" and nullable:
            return None
        return _Check(field.name, nullable, inner, field.type_str != "[]uuid")
    if field.is_struct():
        return _Check(field.name, nullable, field, False)
    if field.type_str in ("string", "bytes", "records"):
        return None if nullable else _Check(field.name, nullable, None, False)
    return None
