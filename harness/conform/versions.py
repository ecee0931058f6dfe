"""Rows about versions: what a broker says that it offers, whether that is enough for clients, what it does with others.

All of them merely read.
"""

import struct
from collections.abc import Mapping
from functools import partial
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from harness.cluster.broker_requests import decoded
from harness.conform.client_versions import BASIC, CLIENTS, WHOLE, Sent
from harness.conform.probe import ASK_S, Probe
from harness.conform.row import Looked, Need, Rows, Undecided, only

_UNKNOWN_VERSION = 999
_UNSUPPORTED_VERSION = 35
_SOFTWARE_FROM = 3  # ApiVersions (KIP-511)
_FIELDS_OF_TOMORROW = bytes(16)  # nulls, zeros and no tags, if anybody looks at them
_PIPELINED = 5
_COMES_S = 5.0  # for a broker that comes or goes

_METADATA = (Need(api=MetadataRequest),)
ROWS = Rows()


def _api_versions_request() -> Any:
    return ApiVersionsRequest(client_software_name="kafka-chaos", client_software_version="1")


@ROWS.row(
    "api-versions",
    expected="each version tells the same APIs, each once, with versions",
    follows="KIP-35, KIP-511",
    reads=True,
)
async def _in_every_version(probe: Probe, looked: Looked) -> str:
    """Version 0 has to be there: it is how everybody finds out."""
    offered: dict[int, Mapping[int, tuple[int, int]]] = {}
    highest = 0
    version = 0
    while version <= highest:
        answer = await probe.ask(_api_versions_request(), node=probe.first, version=version)
        looked.code(f"version {version}", answer.error_code)
        keys = [each.api_key for each in answer.api_keys]
        looked.same(f"version {version}, APIs told more than once", len(keys) - len(set(keys)), 0)
        offered[version] = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        empty = sorted(key for key, (lowest, most) in offered[version].items() if not 0 <= lowest <= most)
        looked.same(f"version {version}, APIs with a range that has no version", str(empty), "[]")
        if version == 0:
            highest = min(offered[0].get(ApiVersionsRequest.API_KEY, (0, 0))[1], ApiVersionsRequest.max_version)
        else:
            looked.note(
                f"version {version}, the APIs", len(offered[version]), offered[version] == offered[0], "those of 0"
            )
        version += 1
    own = offered[0].get(ApiVersionsRequest.API_KEY)
    looked.note("ApiVersions itself", str(own), own is not None and own[0] == 0, "offered from version 0 on")
    return f"versions 0 to {highest}, {len(offered[0])} APIs"


@ROWS.row(
    "api-versions-unknown-version",
    expected="UNSUPPORTED_VERSION, in version 0, and the connection stays",
    follows="KIP-511",
    reads=True,
)
async def _unknown_version_of_api_versions(probe: Probe, looked: Looked) -> str:
    """The next version after its own, as a client of tomorrow asks."""
    version = probe.offered()[ApiVersionsRequest.API_KEY][1] + 1
    connection = probe.asks(ApiVersionsRequest, version, node=probe.first)
    unknown = _renumbered(connection.frame(_api_versions_request(), _SOFTWARE_FROM), version, more=_FIELDS_OF_TOMORROW)
    after = ApiVersionsRequest()
    first, second = await connection.exchange(
        [unknown, connection.frame(after, 0)], answers=2, timeout_s=ASK_S, api="ApiVersionsRequest", version=version
    )
    asked = _api_versions_request()
    asked.with_header(correlation_id=after.header.correlation_id - 1)
    asked.API_VERSION = 0
    answer, left = decoded(asked, 0, first)
    looked.code("error", answer.error_code, _UNSUPPORTED_VERSION)
    looked.same("bytes after an answer of version 0", left, 0)
    own = [(each.min_version, each.max_version) for each in answer.api_keys if each.api_key == asked.API_KEY]
    if answer.api_keys:
        looked.same("ApiVersions among the APIs told, times", len(own), 1)
    looked.code("the next request on the connection", decoded(after, 0, second)[0].error_code)
    return f"UNSUPPORTED_VERSION in version 0, with {len(answer.api_keys)} APIs; the connection stays"


def _renumbered(frame: bytes, version: int, *, more: bytes = b"") -> bytes:
    """The same request, said to be of another version, which has more."""
    changed = frame[4:6] + struct.pack(">h", version) + frame[8:] + more
    return struct.pack(">i", len(changed)) + changed


@ROWS.row(
    "unknown-version",
    expected="the connection is closed, and the broker goes on",
    follows="KIP-35",
    needs=_METADATA,
    reads=True,
)
async def _unknown_version(probe: Probe, looked: Looked) -> str:
    version = probe.versions(MetadataRequest)[-1]
    connection = probe.asks(MetadataRequest, _UNKNOWN_VERSION, node=probe.first)
    frame = _renumbered(connection.frame(MetadataRequest(topics=[]), version), _UNKNOWN_VERSION)
    try:
        (answer,) = await connection.exchange(
            [frame], answers=1, timeout_s=ASK_S, api="MetadataRequest", version=_UNKNOWN_VERSION
        )
    except ConnectionError:
        after = await probe.ask(ApiVersionsRequest(), node=probe.first, version=0)
        looked.code("the next request, on a new connection", after.error_code)
        return "the connection is closed, and a new one is taken"
    raise Undecided(f"it answers in a form that nobody can know: {answer.hex()[:64]}")


@ROWS.row(
    "pipelined-requests",
    expected="requests of one connection are answered in their order",
    follows="Protocol guide, Network",
    needs=_METADATA,
    reads=True,
)
async def _pipelined(probe: Probe, looked: Looked) -> str:
    connection = probe.asks(ApiVersionsRequest, 0, node=probe.first)
    requests: list[ApiVersionsRequest | MetadataRequest] = [ApiVersionsRequest() for _ in range(_PIPELINED)]
    requests[1:1] = [MetadataRequest(topics=[])]
    versions = [probe.versions(MetadataRequest)[-1] if isinstance(each, MetadataRequest) else 0 for each in requests]
    frames = [connection.frame(each, version) for each, version in zip(requests, versions, strict=True)]
    answers = await connection.exchange(
        frames, answers=len(frames), timeout_s=ASK_S, api="ApiVersionsRequest", version=versions[0]
    )
    came = [struct.unpack(">i", answer[:4])[0] for answer in answers]
    looked.same("correlation ids", str(came), str([each.header.correlation_id for each in requests]))
    return f"{len(frames)} requests sent at once are answered in their order"


async def _for_client(probe: Probe, looked: Looked, *, sent: Sent) -> str:
    offered = probe.offered()
    missing = []
    for api, (lowest, highest) in sent.items():
        name = api.__name__.removesuffix("Request")
        if api.API_KEY not in offered:
            if api in BASIC:
                looked.note(name, "not offered", False, f"one of {lowest} to {highest}")
            missing.append(name)
            continue
        least, most = offered[api.API_KEY]
        has = max(lowest, least) <= min(highest, most)
        looked.note(name, f"{least} to {most}", has, f"one of {lowest} to {highest}")
    return f"{len(sent) - len(missing)} APIs" + (f"; not offered: {', '.join(missing)}" if missing else "")


for _client, _sent in CLIENTS.items():
    ROWS.row(
        f"versions-for-{_client}",
        expected=f"each API that is offered has a version that {_client} sends",
        follows="KIP-35",
        reads=True,
    )(partial(_for_client, sent=_sent))


@ROWS.row(
    "whole-features",
    expected="who offers a part of groups, offsets or transactions offers all of it",
    follows="KIP-62, KIP-98",
    reads=True,
)
async def _whole(probe: Probe, looked: Looked) -> str:
    offered = probe.offered()
    for apis in WHOLE:
        missing = [api.__name__.removesuffix("Request") for api in apis if api.API_KEY not in offered]
        names = ", ".join(api.__name__.removesuffix("Request") for api in apis)
        looked.note(
            names, f"lacks {', '.join(missing)}" if missing else "all", len(missing) in (0, len(apis)), "all or none"
        )
    return "all or none of each"


@ROWS.row(
    "metadata",
    expected="each version names the same brokers and one of them as the controller",
    follows="Protocol guide, Metadata",
    needs=_METADATA,
    reads=True,
)
async def _metadata(probe: Probe, looked: Looked) -> str:
    """From 1 on an empty list asks for no topic; in 0 it asks for all. A broker may come or go meanwhile."""
    versions = probe.versions(MetadataRequest)

    async def ask() -> list[Any]:
        return [await probe.ask(MetadataRequest(topics=[]), node=probe.first, version=version) for version in versions]

    answers = await probe.becomes(ask, lambda found: len({_brokers(each) for each in found}) == 1, within_s=_COMES_S)
    for version, answer in zip(versions, answers, strict=True):
        only(answer.brokers, "brokers")
        if version >= 1:
            ids = {-1, *(each.node_id for each in answer.brokers)}
            known = answer.controller_id in ids
            looked.note(f"version {version}, controller", answer.controller_id, known, "a broker or -1")
            looked.same(f"version {version}, topics where none is asked for", len(answer.topics), 0)
    looked.same("different lists of brokers", len({_brokers(each) for each in answers}), 1)
    return f"versions {versions[0]} to {versions[-1]}, {len(answers[-1].brokers)} brokers"


def _brokers(answer: Any) -> tuple[tuple[int, str, int], ...]:
    return tuple(sorted((each.node_id, each.host, each.port) for each in answer.brokers))


@ROWS.row(
    "brokers-answer",
    expected="every broker answers at the address that the metadata tell",
    follows="KIP-103",
    needs=_METADATA,
    reads=True,
)
async def _reachable(probe: Probe, looked: Looked) -> str:
    for node in sorted(probe.addresses):
        answer = await probe.ask(ApiVersionsRequest(), node=node, version=0)
        looked.code(f"broker {node}", answer.error_code)
        offers = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        looked.note(f"broker {node}, Produce and Fetch", "offered", {0, 1} <= offers.keys(), "offered")
    return f"{len(probe.addresses)} answer where the metadata say that they are"
