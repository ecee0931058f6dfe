"""Every anomaly that the checks can find, once: its names in findings, its page in docs/anomalies, what it is.

Reports link and explain findings by it, and tests hold it against the pages and against the names that the checks
give. A name is a check's, or `check/kind` where one check finds things that differ so much that each has a page.
"""

from dataclasses import dataclass
from typing import Literal

Family = Literal["log", "reads", "groups", "transactions", "cycles", "cluster", "run"]


@dataclass(frozen=True, kw_only=True)
class Anomaly:
    """`page`: the file's stem; `names`: what findings call it; `sentence`: what it is.

    markdown: the page itself, of what an installed package's check finds; package: that package.
    """

    page: str
    names: tuple[str, ...]
    title: str
    family: Family
    sentence: str
    markdown: str = ""
    package: str = ""


def _anomaly(page: str, title: str, family: Family, sentence: str, *names: str) -> Anomaly:
    return Anomaly(page=page, names=names or (page,), title=title, family=family, sentence=sentence)


# fmt: off
ANOMALIES: tuple[Anomaly, ...] = (
    # ---- the log against the answers that producers got
    _anomaly("lost-write", "Lost write", "log", "An acknowledged record is not in the final log.",
             "lost-write", "tail-loss"),
    _anomaly("unreadable", "Acknowledged, unreadable", "log",
             "Every in-sync replica has the acknowledged record, above a high watermark that no reader passes."),
    _anomaly("unseen-tail", "Acknowledged, not read at the end", "log",
             "An acknowledged record was never read, and the partition was not read that far.",
             "unseen-tail", "unseen", "unread-tail"),
    _anomaly("acknowledged-without-offset", "Acknowledged without an offset", "log",
             "A success was answered without saying where the record is, and nobody ever read it."),
    _anomaly("duplicate", "Duplicate", "log", "One value is at two or more offsets of a partition."),
    _anomaly("inconsistent-offsets", "Inconsistent offsets", "log", "One offset was seen with two values."),
    _anomaly("replica-divergence", "Replica divergence", "log",
             "Two replicas' logs differ below their high watermarks, where they must be equal."),
    _anomaly("phantom", "Phantom", "log", "A value was read that nobody sent."),
    _anomaly("acknowledged-regression", "Acknowledged offset regression", "log",
             "A record got a lower offset than one that was acknowledged before its send began.",
             "acknowledged-regression", "acknowledged-offset-regression"),
    _anomaly("nonmonotonic-send", "Nonmonotonic send", "log",
             "One producer's records took offsets against the order in which it sent them.",
             "nonmonotonic-send", "reordering"),
    _anomaly("int-nonmonotonic-send", "Nonmonotonic send inside one operation", "log",
             "Two records of one operation stand in the log the other way round."),
    _anomaly("int-send-skip", "Send skip inside one operation", "log",
             "Another operation's record lies between two records of one operation."),
    _anomaly("timestamps", "Timestamps out of order", "log",
             "A timestamp is not the answer that its producer got, or does not rise along the log."),
    _anomaly("removed-by-configuration", "Removed by configuration", "log",
             "Acknowledged records are gone because retention or compaction took them."),
    _anomaly("compacted-away", "Compacted away though it should have survived", "log",
             "The newest acknowledged record of a key is gone from a compacted topic."),
    # ---- what one consumer saw
    _anomaly("aborted-read", "Aborted read (G1a)", "reads",
             "A value was read whose send had definitely failed, or whose transaction was aborted.",
             "aborted-read", "G1a", "aborted-read-in-aborted-poll"),
    _anomaly("read-before-send", "Read before it was sent", "reads",
             "A consumer had a value before its producer began to send it.",
             "read-before-send", "phantom/read-before-sent", "cycle/read-before-send"),
    _anomaly("dirty-read", "Dirty read", "reads", "A record was read while the load ran, and the final log lacks it."),
    _anomaly("poll-skip", "Poll skip", "reads",
             "A poll began behind a record that exists and that the poll before had not reached.",
             "poll-skip", "skipped-read"),
    _anomaly("int-poll-skip", "Poll skip inside one poll", "reads",
             "One poll left out a record that exists.",
             "int-poll-skip", "skipped-read/internal"),
    _anomaly("nonmonotonic-poll", "Nonmonotonic poll", "reads",
             "A poll began at or before the place where the consumer's poll before had ended.",
             "nonmonotonic-poll", "nonmonotonic-read"),
    _anomaly("int-nonmonotonic-poll", "Nonmonotonic poll inside one poll", "reads",
             "One poll returned two records in the wrong order.",
             "int-nonmonotonic-poll", "nonmonotonic-read/internal"),
    _anomaly("head-skip", "Head skip", "reads", "A consumer did not begin where it had to start."),
    _anomaly("end-told-too-low", "End told too low", "reads",
             "A leader answered an end of its log below what had been committed by then."),
    _anomaly("late-record", "Late record", "reads",
             "The final read came to its end without the record, and got it when it was fetched again."),
    _anomaly("seen-only-by-aborted-poll", "Seen only by an aborted poll", "reads",
             "Only polls that did not succeed returned the acknowledged record."),
    _anomaly("corrupt-record", "Corrupt record", "reads", "A broker served a batch whose checksum does not hold."),
    # ---- groups
    _anomaly("group-redelivery", "Group redelivery", "groups", "A group was given a record a second time."),
    _anomaly("lost-group-offset", "Lost or regressed group offset", "groups",
             "A later fetch of the group's offset answered less than a commit that had been acknowledged."),
    _anomaly("two-owners", "Two owners of a partition", "groups",
             "Two members of a group held one partition in the same generation."),
    _anomaly("zombie-commit", "Zombie commit", "groups",
             "A group's coordinator accepted the offsets of a member that was replaced."),
    _anomaly("generation-regression", "Generation that goes back", "groups",
             "A member of a group was told a lower generation than the group had reached."),
    _anomaly("commit-beyond-end", "Commit beyond the end", "groups",
             "A group committed an offset above the end of the partition's log."),
    _anomaly("group-skip", "Group skip", "groups", "The group committed past a record that no member was given."),
    # ---- transactions
    _anomaly("torn-transaction", "Torn transaction", "transactions",
             "A transaction was committed, and only a part of its records is there.",
             "torn-transaction", "torn-transaction-candidate"),
    _anomaly("zombie-transaction", "Zombie transaction", "transactions",
             "A producer committed although a newer one of its transactional id had begun."),
    _anomaly("transaction-outcome", "Transaction told otherwise than decided", "transactions",
             "A client was told that its transaction was committed, and its coordinator's log says aborted, or the"
             " reverse."),
    _anomaly("precommitted-read", "Precommitted read", "transactions",
             "A transaction read its own record before it was committed."),
    _anomaly("read-process-write", "Read-process-write not exactly once", "transactions",
             "An input has two results, or none although its offset was committed."),
    _anomaly("last-stable-offset", "Last stable offset passed", "transactions",
             "A read_committed consumer was given a record behind an open transaction."),
    _anomaly("hanging-transaction", "Hanging transaction", "transactions",
             "A transaction is open in a partition's log, and nobody ends it."),
    # ---- cycles
    _anomaly("g0", "Write cycle (G0)", "cycles",
             "Each of some operations stands before the next one in some partition, in a circle.",
             "G0", "G0-realtime", "PL-1-cycle-exists", "strong-PL-1-cycle-exists", "cycle/G0",
             "cycle/order-against-time"),
    _anomaly("g1c", "Circular information flow (G1c)", "cycles",
             "Each of some transactions read, or wrote after, something of the next one, in a circle.",
             "G1c", "G1c-realtime", "PL-2-cycle-exists", "strong-PL-2-cycle-exists", "cycle", "cycle/circular-reading",
             "cycle/G1c-ww", "cycle/G1c-ww-realtime"),
    _anomaly("g-single", "Read skew (G-single)", "cycles",
             "A transaction saw one thing that another wrote and missed another.",
             "G-single", "G-single-realtime", "cycle/G-single", "cycle/G-single-realtime"),
    _anomaly("g2", "Anti-dependency cycle (G2)", "cycles",
             "Each of some transactions missed what the next one wrote, in a circle.",
             "G2-item", "G2-item-realtime", "cycle/G2-item", "cycle/G2-item-realtime"),
    # ---- the cluster and its clients
    _anomaly("unclean-election", "Unclean election", "cluster",
             "A replica outside the ISR and the eligible leader replicas became leader."),
    _anomaly("acknowledged-below-min-isr", "Acknowledged below min.insync.replicas", "cluster",
             "acks=all was answered while fewer replicas were in sync than the topic demands."),
    _anomaly("two-leaders", "Two leaders in one epoch", "cluster", "Two brokers led a partition in the same epoch."),
    _anomaly("leader-epochs", "Leader epochs out of order", "cluster",
             "The epochs along a log fall, or a record is stamped with an epoch that it cannot have."),
    _anomaly("high-watermark-regression", "High watermark that goes back", "cluster",
             "A leader's high watermark was lower than before, in one epoch."),
    _anomaly("inconsistent-topic-id", "Log of another topic", "cluster",
             "A replica's log is, by its own file, of another topic than the partition."),
    _anomaly("node-ended", "A node that ended while no fault had it down", "cluster",
             "A broker or a controller ended while no fault of the plan had it down."),
    _anomaly("availability", "Availability gap and time to recover", "cluster",
             "A partition took no writes, or gave a reader nothing, although they tried.", "availability", "recovery"),
    _anomaly("client-stuck", "Client stuck", "cluster",
             "A producer or a reader got nothing although no fault was in force, and leaders and ISRs were there."),
    _anomaly("no-progress", "No progress after the last heal", "cluster",
             "Asked after the last heal, a client got no write acknowledged, no partition, or no record in time."),
    # ---- the run
    _anomaly("evidence", "Evidence against evidence", "run",
             "Two parts of what was recorded contradict each other, or a part of it is missing."),
    _anomaly("expectation", "A stated expectation failed", "run", "What a step of the scenario demands was not so."),
    _anomaly("no-data", "No data, or too little evidence", "run",
             "Too little happened, or was looked at, for a verdict; the verdict says so.",
             "no-data", "insufficient-evidence", "cycles-not-searched", "empty-transaction-graph"),
)
# fmt: on

BY_NAME: dict[str, Anomaly] = {name: anomaly for anomaly in ANOMALIES for name in anomaly.names}


def anomaly_of(check: str, kind: str = "") -> Anomaly | None:
    """The page of a finding: by check and kind where the kinds have pages of their own, else by check."""
    return BY_NAME.get(f"{check}/{kind}") or BY_NAME.get(check)
