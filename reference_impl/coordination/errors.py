"""The exceptions of the coordination client: one class for each error code that callers handle."""

from reference_impl.coordination.records import Code


class CoordinationError(Exception):
    """The service refused the request; `code` is ZooKeeper's error code."""

    code: int = Code.RUNTIME_INCONSISTENCY

    def __init__(self, message: str = "", *, code: int | None = None) -> None:
        super().__init__(message or type(self).__name__)
        if code is not None:
            self.code = code


class NoNode(CoordinationError):
    code = Code.NO_NODE


class NodeExists(CoordinationError):
    code = Code.NODE_EXISTS


class BadVersion(CoordinationError):
    """A conditional write failed because the znode was changed in between."""

    code = Code.BAD_VERSION


class NotEmpty(CoordinationError):
    code = Code.NOT_EMPTY


class NoChildrenForEphemerals(CoordinationError):
    code = Code.NO_CHILDREN_FOR_EPHEMERALS


class SessionExpired(CoordinationError):
    """The session and its ephemeral znodes are gone; the caller must create a new client."""

    code = Code.SESSION_EXPIRED


class ConnectionLost(CoordinationError):
    """The connection was lost; it is unknown whether the request was executed."""

    code = Code.CONNECTION_LOSS


_CLASSES: dict[int, type[CoordinationError]] = {
    error.code: error
    for error in (NoNode, NodeExists, BadVersion, NotEmpty, NoChildrenForEphemerals, SessionExpired, ConnectionLost)
}


def error_for(code: int, subject: str) -> CoordinationError:
    known = _CLASSES.get(code)
    return known(subject) if known is not None else CoordinationError(f"{subject}: code {code}", code=code)
