"""The parts of a ruling, as facts: class, cause, the rules that were tried, and what is unknown.

Everything is a frozen record; `wording` writes the sentences. So records are compared and grouped by their facts, and
rewording changes no result.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from harness.checks.contract.destruction import Destruction
from harness.checks.model.elections import Election
from harness.checks.model.partition_history import Deletion, DiskLoss
from harness.checks.model.unclean_rules import PermissionSource
from harness.history.facts.finding_facts import Setting

Class = Literal["violation", "permitted", "observation"]
LossCause = Literal[
    "unclean-election",
    "fail-over",
    "destruction",
    "clean-election",
    "restart",
    "log-start",
    "deletion",
    "forgotten-decision",  # `forgotten` says how
    "unknown",
]
RuleName = Literal["unclean-election", "fail-over", "destruction", "deletion", "min-insync-replicas"]

# ---- what is not known ----------------------------------------------------------------------------------------------

DoubtCode = Literal[
    "rule-not-decided",  # `rule` says which
    "moved-by-somebody",  # the log's start, in somebody else's cluster
    "acknowledged-by-a-deposed-leader",
    "not-heard-of-its-successor",
    "may-have-been-committed",
    "acknowledged-before-or-after",
    "cut-while-polled",
    "lost-before-it-led",
    "which-leader-lost-it",
    "what-the-disks-held",
    "disk-lost-while-polled",
    "no-epochs-told",
    "unclean-while-polled",
    "fail-over-while-polled",
    "attempts-not-told",
    "calls-of-several-tasks",
    "cut-or-twice",
    "idempotence-not-told",
    "leader-may-not-have-known",
    "another-client-of-its-id",
    "group-offsets-on-a-lost-disk",
    "group-offsets-elected-uncleanly",
    "producer-ids-in-doubt",
    "outputs-not-read",
    "outputs-gone-with-a-topic",
    "inputs-moved",
    "told-by-a-deposed-leader",
    "told-by-a-deposed-coordinator",
    "answered-by-which-record",
    "deleted-by-somebody",
    "clock-in-doubt",
    "topic-deleted-by-somebody",
    "lost-before-its-topic",
    "end-told-by-whom",
    "end-told-to-whom",
    "end-told-before-the-mark",
    "end-told-on-an-unknown-release",
    "later-one-may-be-lost",
    "brokers-keep-differently",
    "keys-not-told",
    "sizes-not-told",
    "stamps-not-told",
    "coordinators-log-on-a-lost-disk",
    "coordinators-log-elected-uncleanly",
    "asked-on-an-unknown-release",
    "marker-may-be-lost",
    "decision-may-be-lost",
    "end-marker-may-be-lost",
    "old-client-got-nothing",
    "nobody-answered",
    "polled-or-foreign",
    "not-all-in-sync",
    "another-node-had-ended",
    "asked-for-a-moment",
    "may-wait-for-others",
    "stable-offset-stands",
    "commits-not-kept",
    "nothing-committed",
    "several-groups",
    "read-for-which-group",
    "inputs-not-read",
    "flow-ids-not-told",
    "no-producer-recorded",
    "outputs-by-others",
    "answer-may-be-missing",
    "output-in-an-open-transaction",
]


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """An unknown: it may have permitted the loss, or the loss may be a violation."""

    code: DoubtCode
    node: int | None = None
    nodes: tuple[int, ...] = ()
    epochs: tuple[int, ...] = ()
    partitions: tuple[str, ...] = ()
    rule: "Rule | None" = None


# ---- why a rule holds or does not -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class NoLaterLeader:
    """No leader after `epoch` began its log at or below `offset`."""

    epoch: int | None
    offset: int | None


@dataclass(frozen=True, kw_only=True)
class HeldToMore:
    """Why the acks=1 rule does not apply: it was acknowledged with acks=all, or committed."""

    why: Literal["acks-all", "committed"]


@dataclass(frozen=True, kw_only=True)
class TookOver:
    """`moved`: leadership came to this broker from another one."""

    leader: int
    epoch: int
    start: int | None
    moved: bool


@dataclass(frozen=True, kw_only=True)
class TooFewInSync:
    """`least`: the value of min.insync.replicas."""

    least: int


RuleEvidence: TypeAlias = NoLaterLeader | Election | HeldToMore | TookOver | Destruction | Deletion | TooFewInSync


@dataclass(frozen=True, kw_only=True)
class Rule:
    """holds: None if unknown."""

    rule: RuleName
    holds: bool | None
    evidence: RuleEvidence

    @property
    def setting(self) -> Setting | None:
        """The setting that decides it, if there is one."""
        if isinstance(self.evidence, Election):
            return self.evidence.permission.setting
        if isinstance(self.evidence, TooFewInSync):
            return min_isr_setting(self.evidence.least)
        return None


@dataclass(frozen=True, kw_only=True)
class Ruling:
    classification: Class
    cause: LossCause
    election: Election | None
    epoch: int | None  # the record's
    by_time: bool
    rules: tuple[Rule, ...]
    disk_losses: tuple[DiskLoss, ...] = ()
    destroyed: bool | None = False  # whether every in-sync copy was destroyed
    undecided: Doubt | None = None  # what may have permitted it and is unknown
    forgotten: "Cause | None" = None  # what took its transaction's decision from the coordinator's log

    @property
    def cause_epoch(self) -> int | None:
        return self.election.epoch if self.election else None


def min_isr_setting(least: int) -> Setting:
    return Setting(key="min.insync.replicas", value=str(least), scope="topic")


# ---- the cause of a finding -----------------------------------------------------------------------------------------

# Why a producer may have sent a record twice, or cannot have done so (attempts.py).
AttemptsCode = Literal[
    "never-retried",
    "not-acknowledged",
    "sent-again",
    "refused-and-sent-again",
    "refused-before-the-append",
    "nothing-made-it-retry",
    "had-a-reason-to-retry",
    "attempts-not-told",
    "idempotent-producer",
    "several-in-flight",
    "calls-of-several-tasks",
    "idempotence-not-told",
    "cut-or-twice",
]
RemovalCode = Literal[
    "retention-time",
    "retention-size",
    "retention-in-doubt",
    "compaction-of-a-key",
    "compaction-in-doubt",
    "compaction-of-a-tombstone",
    "deletion-of-its-topic",
    "deletion-of-records",
]
StartCode = Literal["sought", "group-committed", "assigned-at", "earliest-record"]
CycleCode = Literal[
    "reads-of-open-transactions",
    "read-before-sent",
    "order-of-acknowledged",
    "order-of-read",
    "committed-readers-waited",
    "reads-of-uncommitted",
    "writes-interleave",
]
CauseCode = Literal[
    LossCause,
    PermissionSource,
    AttemptsCode,
    RemovalCode,
    StartCode,
    CycleCode,
    "nothing-permits-it",
    # of single records
    "last-of-its-key-removed",
    "no-leader",
    "frozen-high-watermark",
    "not-read-to-its-end",
    "end-below-the-marks",
    "end-told-too-low",
    "end-told-in-doubt",
    "end-told-before-kip-207",
    "end-told-by-a-deposed-leader",
    "end-told-before-they-were-committed",
    "readable-later",
    "not-classed",
    "cut-and-written-again",
    "moved-without-a-loss",
    "answered-elsewhere",
    "cut-in-doubt",
    # of offsets and logs
    "final-reads-disagree",
    "replicas-disagree",
    "no-loss-between",
    "first-value-lost",
    "first-value-lost-in-doubt",
    "damaged-and-not-read",
    "damaged-and-not-cut",
    "replica-lacks-the-last-of-a-key",
    "compacts-in-its-own-time",
    "compacts-in-its-own-time-as-far-as-known",
    "replica-lacks-a-record",
    "in-sync-replicas-differ",
    "logs-parted-by-a-loss",
    "logs-parted-in-doubt",
    "logs-parted-without-a-loss",
    "rewound-by-election",
    "rewound-in-doubt",
    "rewound-under-the-consumer",
    "rewound-under-the-reader",
    "position-removed",
    "position-deleted",
    "position-perhaps-removed",
    "lost-above-it",
    "lost-above-it-in-doubt",
    "lost-itself-in-doubt",
    "acknowledged-by-a-deposed-leader",
    # of damage
    "no-disk-was-damaged",
    "every-copy-was-damaged",
    "damaged-and-read-at-its-start",
    "damaged-and-others-sound",
    # of transactions, groups and cycles
    "not-read-that-far",
    "missing-in-doubt",
    "missing-by-a-loss",
    "outputs-not-read",
    "outputs-gone-with-a-topic",
    "inputs-moved",
    "inputs-read-again",
    "position-in-doubt",
    "fenced-producer-committed",
    "producer-ids-in-doubt",
    "marker-not-due",
    "marker-cut",
    "marker-in-doubt",
    "coordinators-log-destroyed",
    "coordinators-log-lost-in-an-election",
    "coordinators-log-in-doubt",
    "appended-without-asking",
    "appended-in-doubt",
    "one-generation-two-members",
    "group-offsets-on-a-lost-disk",
    "group-offsets-elected-uncleanly",
    "group-offsets-expired",
    "group-empty-without-offsets",
    "group-offsets-deleted",
    "group-offsets-committed-by-somebody",
    "group-offsets-deleted-by-somebody",
    "group-offsets-told-by-whom",
    "group-offsets-destroyed",
    "group-offsets-lost-in-an-election",
    "group-offsets-in-doubt",
    "old-generation-committed",
    "replaced-member-committed",
    "given-up-and-committed",
    "generation-only-rises",
    "generation-perhaps-told-late",
    "commits-are-not-compared",
    "transaction-perhaps-pending",
    "commit-perhaps-overwritten",
    "committed-is-delivered-once",
    "committed-before-it-was-read",
    "committed-and-never-read",
    "redelivered-uncommitted",
    "redelivered-unknown",
    "redelivered-held-on",
    "redelivered-sought",
    "redelivered-after-commit",
    "moved-by-a-permitted-loss",
    "moved-by-a-loss-in-doubt",
    # of an application
    "flow-in-doubt",
    "output-never-sent",
    "output-refused",
    "output-not-acknowledged",
    "output-sent-again",
    # of evidence against evidence
    "disks-contradict-reads",
    "disks-contradict-digests",
    "final-read-contradicts-its-end",
    "high-watermark-above-the-log-end",
    "books-contradict",
    # of the cluster and the run
    "ended-by-a-signal",
    "ended-untouched",
    "ended-by-a-fault",
    "ended-by-an-error-of-ours",
    "ended-in-doubt",
    "progress-in-doubt",
    "led-by-nobody",
    "too-few-in-sync",
    "refused-by-a-rule",
    "answer-explained",
    "fenced-by-a-newer",
    "held-by-its-library",
    "members-kept-crashing",
    "node-is-down",
    "fault-not-over",
    "transaction-open",
    "nobody-serves-them",
    "min-insync-replicas-not-kept",
    "two-leaders",
    "epochs-only-rise",
    "epoch-of-no-log",
    "epochs-before-kip-279",
    "epochs-of-a-damaged-log",
    "high-watermark-only-rises",
    "high-watermark-of-a-process-unknown",
    "log-of-another-topic",
    "log-left-behind",
    "two-clocks",
    "clock-set-back",
    "clock-in-doubt",
    "step-failed",
]


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Why a finding exists. `code` is the kind of cause; the other fields say who, where, and by which settings.

    by: the cause of the loss it follows from; check: the check that found that loss. epoch, offset: of the election and
    its log end, of a seek or a commit. number: of a step, from 1.
    """

    code: CauseCode
    by: LossCause | None = None
    check: str = ""
    doubt: Doubt | None = None
    election: Election | None = None
    epoch: int | None = None
    offset: int | None = None
    nodes: tuple[int, ...] = ()
    partitions: tuple[str, ...] = ()
    number: int | None = None
    settings: tuple[Setting, ...] = ()

    @property
    def codes(self) -> tuple[str, ...]:
        """Its kinds only, without names and numbers."""
        doubt = self.doubt
        of_rule = doubt.rule.rule if doubt is not None and doubt.rule is not None else ""
        return (self.code, self.by or "", self.check, doubt.code if doubt is not None else "", of_rule)

    def as_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"code": self.code}
        if self.by is not None:
            fields["by"] = self.by
        if self.check:
            fields["check"] = self.check
        if self.doubt is not None:
            fields["doubt"] = self.doubt.code
        return fields


NOTHING_PERMITS_IT = Cause(code="nothing-permits-it")
CAUSE_CODES: tuple[str, ...] = get_args(CauseCode)


@dataclass(frozen=True, kw_only=True)
class OtherCause:
    """The cause of a finding by a package's check: its code, the same for the same kind of cause, and its text, without
    a full stop."""

    code: str
    words: str
    settings: tuple[Setting, ...] = ()

    def __post_init__(self) -> None:
        if self.code in CAUSE_CODES:
            raise ValueError(f"the cause {self.code!r} is kafka-chaos's own; choose another code")

    @property
    def codes(self) -> tuple[str, ...]:
        return (self.code,)

    def as_dict(self) -> dict[str, Any]:
        return {"code": self.code}
