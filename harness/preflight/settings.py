"""Checks the settings that a scenario gives to brokers and topics: that Kafka has them, and the values' types.

A broker takes a key that it does not know without a word. What one release lacks and another has is no mistake: a
scenario may be for many (`ignored` in capabilities.py says what has no effect).
"""

from collections.abc import Iterator, Mapping

from harness.cluster.brokers.kafka_versions import KAFKA_VERSIONS, numbers_of
from harness.cluster.brokers.known_settings import OF_THE_HARNESS, Scope, known_settings, unfit_value
from harness.cluster.brokers.reference import known_flaws
from harness.errors import Problem
from harness.preflight.topology import Wrong
from harness.scenario.model import Scenario
from harness.scenario.names import nearest
from harness.scenario.variants import Traits

_KINDS = ("reference", "kafka")  # whoever adds another kind of broker knows its keys
_PREFIXES = ("listener.name.", "confluent.")  # of one listener's own (KIP-103), and of a distribution
_TRANSLATED = "zookeeper."  # the session timeout is set by the key that KRaft has for it
_NEWEST = KAFKA_VERSIONS[0].numbers
_ONE_DIRECTORY = "a broker has one log directory here, on the disk that faults act on"


def problems(scenario: Scenario, traits: Traits) -> Iterator[Problem]:
    if traits.kind not in _KINDS or scenario.cluster.is_foreign:
        return
    places, cluster = scenario.places, scenario.cluster
    for flaw in cluster.flaws if traits.kind == "reference" else ():
        if flaw not in known_flaws():
            what = f"[cluster] flaws: the reference has no flaw {flaw!r}"
            yield Problem(place=places.key("cluster", "flaws"), what=what, remedy=nearest(flaw, known_flaws()))
    for key, what, remedy in _wrong(cluster.settings, "broker", traits):
        yield Problem(place=places.setting("cluster", key), what=f"[cluster] settings, {key!r}: {what}", remedy=remedy)
    for index, topic in enumerate(scenario.topics):
        for key, what, remedy in _wrong(topic.settings, "topic", traits):
            place = places.setting("topics", key, index=index, topic=topic.name)
            yield Problem(place=place, what=f"topic {topic.name!r}, setting {key!r}: {what}", remedy=remedy)
    for index, spec in enumerate(scenario.faults):
        for given in ("settings", "afterwards"):
            table = spec.options.get(given)
            for key, what, remedy in _wrong(table, "topic", traits) if isinstance(table, Mapping) else ():
                what = f"fault {spec.kind!r}: {given}, {key!r}: {what}"
                yield Problem(place=places.fault(index, "options"), what=what, remedy=remedy)


def _wrong(settings: Mapping[str, object], scope: Scope, traits: Traits) -> Iterator[tuple[str, str, str]]:
    """(key, what is wrong, the remedy)."""
    known = known_settings(scope)
    for key, value in settings.items():
        if scope == "broker" and key in OF_THE_HARNESS:
            remedy = _ONE_DIRECTORY if key.startswith("log.dir") else "[cluster] brokers, layout and --world decide it"
            yield key, "the harness gives every node its own", f"leave it out: {remedy}"
        elif key in known:
            needed = unfit_value(known[key].type, str(value))
            if needed is not None:
                yield key, f"{needed} is needed ({known[key].type}), not {str(value)!r}", ""
        elif not key.startswith(_PREFIXES) and traits.version <= _NEWEST:
            yield key, *_unknown(key, scope)


def _unknown(key: str, scope: Scope) -> Wrong:
    other: Scope = "topic" if scope == "broker" else "broker"
    if key in known_settings(other):
        where = "[[topics]] settings" if other == "topic" else "[cluster.settings]"
        return f"no Kafka has it as a {scope}'s setting", f"it is a {other}'s: {where}"
    known = tuple(known_settings(scope))
    close = nearest(key, known)
    return f"no Kafka has such a {scope}'s setting", close if close.startswith("did") else ""


def without_effect(scenario: Scenario, traits: Traits) -> list[str]:
    """A line for the brokers' settings that this release of Kafka certainly does not have, and others do."""
    if traits.kind != "kafka":
        return []
    asked = [row.numbers for row in KAFKA_VERSIONS]
    older = max((numbers for numbers in asked if numbers <= traits.version), default=())
    newer = min((numbers for numbers in asked if numbers >= traits.version), default=())
    unknown = []
    for key in sorted(scenario.cluster.settings):
        known = known_settings("broker").get(key)
        if known is not None and known.first and not key.startswith(_TRANSLATED):
            first, last = numbers_of(known.first), numbers_of(known.last)
            if (newer and newer < first) or (older and older > last):
                unknown.append(key)
    return [f"Kafka {'.'.join(map(str, traits.version))} has no {', '.join(unknown)}: no effect"] if unknown else []
