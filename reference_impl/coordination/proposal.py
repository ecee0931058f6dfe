"""Decides whether requested operations may happen and turns them into transactions, without changing the tree.

A later operation of a multi must see the effect of earlier ones, so a proposal keeps their pending changes beside the
tree.
"""

from dataclasses import dataclass

from reference_impl.coordination.records import (
    ANY_VERSION,
    CheckRequest,
    Code,
    CreateFlag,
    CreateRequest,
    DeleteRequest,
    Operation,
    SetAclRequest,
    SetDataRequest,
)
from reference_impl.coordination.transactions import (
    CheckTransaction,
    CreateTransaction,
    DeleteTransaction,
    ErrorTransaction,
    MultiTransaction,
    PartTransaction,
    SetAclTransaction,
    SetDataTransaction,
)
from reference_impl.coordination.tree import PERSISTENT, ROOT, Tree, Znode, is_valid_path, parent_of


class Refused(Exception):
    """The operation is not allowed; `code` says why."""

    def __init__(self, code: Code) -> None:
        super().__init__(code.name)
        self.code = code


@dataclass(kw_only=True)
class _Outline:
    """The properties of a znode that decisions depend on."""

    version: int
    acl_version: int
    children_created: int
    child_count: int
    ephemeral: bool


def _outline_of(node: Znode) -> _Outline:
    return _Outline(
        version=node.version,
        acl_version=node.acl_version,
        children_created=node.children_created,
        child_count=len(node.children),
        ephemeral=node.ephemeral_owner != PERSISTENT,
    )


class Proposal:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._pending: dict[str, _Outline | None] = {}

    def decide(self, operation: Operation) -> PartTransaction:
        """Returns the transaction for one operation, applied on top of those decided before. Raises Refused."""
        match operation:
            case CreateRequest():
                return self._create(operation)
            case DeleteRequest():
                return self._delete(operation)
            case SetDataRequest():
                return self._set_data(operation)
            case SetAclRequest():
                return self._set_acl(operation)
            case CheckRequest():
                self._expect_version(operation.path, operation.version)
                return CheckTransaction(path=operation.path, version=operation.version)

    def _find(self, path: str) -> _Outline | None:
        if path not in self._pending:
            node = self._tree.find(path)
            self._pending[path] = _outline_of(node) if node is not None else None
        return self._pending[path]

    def _existing(self, path: str) -> _Outline:
        outline = self._find(path)
        if outline is None:
            raise Refused(Code.NO_NODE)
        return outline

    def _expect_version(self, path: str, version: int) -> _Outline:
        outline = self._existing(path)
        if version not in (ANY_VERSION, outline.version):
            raise Refused(Code.BAD_VERSION)
        return outline

    def _create(self, request: CreateRequest) -> CreateTransaction:
        try:
            flag = CreateFlag(request.flags)
        except ValueError:
            # Container and TTL nodes are not supported; brokers do not create them.
            raise Refused(Code.UNIMPLEMENTED) from None
        # A sequential path may end in a slash; the appended number completes it.
        if not is_valid_path(request.path + "0" if flag.sequential else request.path) or request.path == ROOT:
            raise Refused(Code.BAD_ARGUMENTS if request.path != ROOT else Code.NODE_EXISTS)
        parent = self._existing(parent_of(request.path))
        path = f"{request.path}{parent.children_created:010d}" if flag.sequential else request.path
        if parent.ephemeral:
            raise Refused(Code.NO_CHILDREN_FOR_EPHEMERALS)
        if self._find(path) is not None:
            raise Refused(Code.NODE_EXISTS)
        parent.children_created += 1
        parent.child_count += 1
        self._pending[path] = _Outline(
            version=0, acl_version=0, children_created=0, child_count=0, ephemeral=flag.ephemeral
        )
        return CreateTransaction(
            path=path,
            data=request.data,
            acls=request.acls,
            ephemeral=flag.ephemeral,
            parent_cversion=parent.children_created,
        )

    def _delete(self, request: DeleteRequest) -> DeleteTransaction:
        if request.path == ROOT:
            raise Refused(Code.BAD_ARGUMENTS)
        outline = self._expect_version(request.path, request.version)
        if outline.child_count > 0:
            raise Refused(Code.NOT_EMPTY)
        self._existing(parent_of(request.path)).child_count -= 1
        self._pending[request.path] = None
        return DeleteTransaction(path=request.path)

    def _set_data(self, request: SetDataRequest) -> SetDataTransaction:
        outline = self._expect_version(request.path, request.version)
        outline.version += 1
        return SetDataTransaction(path=request.path, data=request.data, version=outline.version)

    def _set_acl(self, request: SetAclRequest) -> SetAclTransaction:
        outline = self._existing(request.path)
        if not request.acls:
            raise Refused(Code.INVALID_ACL)
        if request.version not in (ANY_VERSION, outline.acl_version):
            raise Refused(Code.BAD_VERSION)
        outline.acl_version += 1
        return SetAclTransaction(path=request.path, acls=request.acls, version=outline.acl_version)


def decide_one(tree: Tree, operation: Operation) -> PartTransaction:
    """Returns what to log for a single operation: its transaction, or an error transaction."""
    try:
        return Proposal(tree).decide(operation)
    except Refused as refused:
        return ErrorTransaction(code=refused.code)


def decide_multi(tree: Tree, operations: list[Operation]) -> MultiTransaction:
    """Decides all operations or none. On refusal every part becomes an error: OK before the refused operation, its own
    code, then "not tried" after it."""
    proposal = Proposal(tree)
    parts: list[PartTransaction] = []
    try:
        for operation in operations:
            parts.append(proposal.decide(operation))
    except Refused as refused:
        not_tried = len(operations) - len(parts) - 1
        codes = [Code.OK] * len(parts) + [refused.code] + [Code.RUNTIME_INCONSISTENCY] * not_tried
        return MultiTransaction(parts=tuple(ErrorTransaction(code=code) for code in codes))
    return MultiTransaction(parts=tuple(parts))
