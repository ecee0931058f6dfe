"""Why a finding is there, in words."""

from collections.abc import Mapping

from harness.checks.contract.rulings import Cause, CauseCode, OtherCause
from harness.checks.model.elections import Election
from harness.checks.wording.rulings import doubt_words, log_end_words, permission_words
from harness.checks.wording.words import nodes_words

# Each is filled with the fields of its cause. What is not here is worded by its election.
_WORDS: Mapping[CauseCode, str] = {
    "nothing-permits-it": "nothing permits it",
    # ---- single records
    "last-of-its-key-removed": "the last record of a key was removed",
    "no-leader": "no leader",
    "frozen-high-watermark": "frozen high watermark",
    "end-below-the-marks": "a high watermark on disk is above the reader's end",
    "end-told-too-low": (
        "a leader answers its high watermark, or that it does not know it yet (OFFSET_NOT_AVAILABLE, KIP-207)"
    ),
    "end-told-in-doubt": "it is unknown whether that was too low: {doubt}",
    "end-told-before-kip-207": "before Kafka 2.2 (KIP-207) a leader might answer less than it had acknowledged",
    "end-told-by-a-deposed-leader": "{nodes}, asked for it, did not lead any more",
    "end-told-before-they-were-committed": "nothing shows that they were committed when the leader was asked",
    "readable-later": "they were late, and are not lost",
    "not-read-to-its-end": "not read to its end",
    "not-classed": "not classed",
    "cut-and-written-again": "the log was cut by a permitted {by} and the record written again",
    "moved-without-a-loss": "the record changed its offset and no permitted loss explains it",
    "answered-elsewhere": (
        "its leader gave that offset to another record: the one answered is not that of the record, and no log was cut"
    ),
    "cut-in-doubt": "the log was cut, and it is unknown whether that was permitted: {doubt}",
    "retention-time": "{setting}",
    "retention-size": "{setting}",
    "retention-in-doubt": "{setting}, as far as known: {doubt}",
    "position-deleted": (
        "a client had offset {offset} deleted, where it was to go on (DeleteRecords), and its reset policy decided"
    ),
    "position-removed": "{setting} had removed offset {offset}, where it was to go on, and its reset policy decided",
    "position-perhaps-removed": "its position may have been removed, and its reset policy have decided: {doubt}",
    "deletion": "the topic was deleted, and no step of the plan asked for that",
    "deletion-of-records": "DeleteRecords, which a client asked the leader for",
    "deletion-of-its-topic": "the deletion of its topic, which a step of the plan asked for",
    "compaction-of-a-key": "compaction, by a later record of the same key",
    "compaction-in-doubt": "compaction, by a later record of the same key, as far as known: {doubt}",
    "compaction-of-a-tombstone": "compaction, as a tombstone after {setting}",
    # ---- what is not got after the last heal
    "progress-in-doubt": "{doubt}",
    "led-by-nobody": "{partitions} had no leader",
    "too-few-in-sync": "fewer were in sync than {setting} demands",
    "refused-by-a-rule": "a rule of the cluster refuses it",
    "answer-explained": "what was answered is explained by the run",
    "fenced-by-a-newer": "a newer producer has its transactional id",
    "held-by-its-library": "no broker refuses it, so its library holds it up",
    "members-kept-crashing": "its members kept crashing, and a coordinator waits for each until its session is over",
    "node-is-down": "{nodes} did not run any more",
    "fault-not-over": "a fault was not over",
    "transaction-open": "a transaction is open there",
    # ---- what its producer did
    "never-retried": "the producer never retried",
    "not-acknowledged": "the producer is not idempotent and its send was not acknowledged",
    "refused-and-sent-again": "the producer is not idempotent, and it sent again what had been refused",
    "sent-again": "the producer is not idempotent, and it sent again what may have been appended already",
    "refused-before-the-append": "each attempt but one was refused before the append",
    "nothing-made-it-retry": "the producer met nothing that would have made it send again",
    "had-a-reason-to-retry": "the producer is not idempotent and had a reason to retry",
    "attempts-not-told": "{doubt}",
    "cut-or-twice": "{doubt}",
    "idempotent-producer": "an idempotent producer writes each record once",
    "several-in-flight": (
        "the producer is not idempotent and had both in flight: one that failed is sent again after the next one, and "
        "what its client met is not known"
    ),
    "calls-of-several-tasks": "{doubt}",
    "idempotence-not-told": "{doubt}",
    # ---- offsets and logs
    "final-reads-disagree": "two final reads disagree",
    "replicas-disagree": "reads from different replicas disagree, and no permitted loss explains it",
    "no-loss-between": "no permitted loss lies between the two",
    "first-value-lost": "the first value was lost by a permitted {by}, the second written after it",
    "first-value-lost-in-doubt": ("the first value was lost, and it is unknown whether that was permitted: {doubt}"),
    "damaged-and-not-read": "the log of {nodes} was damaged, and it has not had to read it",
    "damaged-and-not-cut": "the log of {nodes} was damaged, and has not been cut at a start after a crash",
    "replica-lacks-the-last-of-a-key": (
        "a replica of the ISR lacks the last record of a key, which no compaction removes"
    ),
    "compacts-in-its-own-time": "every replica compacts its own log in its own time",
    "compacts-in-its-own-time-as-far-as-known": (
        "every replica compacts its own log in its own time, and whether these were the last of their keys nobody knows"
    ),
    "replica-lacks-a-record": "a replica of the ISR has no record where another one has",
    "in-sync-replicas-differ": "members of the ISR hold different records below the high watermark",
    "logs-parted-by-a-loss": "a permitted {by} in epoch {epoch} parted the logs",
    "logs-parted-in-doubt": "it is unknown whether a permitted loss parted the logs: {doubt}",
    "logs-parted-without-a-loss": "no permitted loss parted the logs",
    "rewound-by-election": "the election of epoch {epoch} lawfully truncated the log to {offset}",
    "rewound-in-doubt": "it is unknown whether the log was lawfully truncated before it: {doubt}",
    "rewound-under-the-consumer": (
        "the election of epoch {epoch} lawfully truncated the log to {offset} under the consumer"
    ),
    "rewound-under-the-reader": "the election of epoch {epoch} rewound the log",
    "lost-above-it": "what stood above it was lost by a permitted {by}",
    "lost-above-it-in-doubt": ("what stood above it was lost, and it is unknown whether that was permitted: {doubt}"),
    "lost-itself-in-doubt": "it was lost itself, and it is unknown whether that was permitted: {doubt}",
    "acknowledged-by-a-deposed-leader": (
        "a leader acknowledged it that epoch {epoch} had replaced, and it was lawfully lost"
    ),
    # ---- evidence against evidence
    "disks-contradict-reads": "disks contradict reads",
    "disks-contradict-digests": "disks contradict digests",
    "final-read-contradicts-its-end": "the final read contradicts its end",
    "high-watermark-above-the-log-end": "high watermark above the log end",
    "books-contradict": "books contradict",
    # ---- damage
    "no-disk-was-damaged": "a broker served a damaged record, and no disk was damaged by a fault",
    "every-copy-was-damaged": "every in-sync copy of {partitions} had been damaged",
    "damaged-and-read-at-its-start": (
        "the log of {nodes} had been damaged, and it had started after a crash since and read it"
    ),
    "damaged-and-others-sound": "the log of {nodes} had been damaged, and other in-sync copies were sound",
    # ---- transactions
    "not-read-that-far": "their partitions were not read that far",
    "missing-in-doubt": "it is unknown whether the missing records were lawfully lost: {doubt}",
    "missing-by-a-loss": "the missing records were lost by a permitted {by}",
    "outputs-not-read": "{doubt}",
    "outputs-gone-with-a-topic": "{doubt}",
    "position-in-doubt": "{doubt}",
    "inputs-moved": "records of {partitions} were lost, and others got their offsets",
    "inputs-read-again": "the log of {partitions} was lawfully cut below the position of a member, which began anew",
    "fenced-producer-committed": "a fenced producer committed",
    "producer-ids-in-doubt": "{doubt}",
    "forgotten-decision": "its coordinator lawfully forgot how its transaction was to end",
    "marker-not-due": "its coordinator still had time to end it",
    "marker-in-doubt": "{doubt}",
    "marker-cut": "the election of epoch {epoch} cut the log to {offset}, and its marker with what was cut",
    "coordinators-log-destroyed": (
        "the disks of every in-sync copy of {partitions}, where its coordinator keeps it, were lost ({nodes})"
    ),
    "coordinators-log-lost-in-an-election": (
        "{nodes} was elected uncleanly, in epoch {epoch} of {partitions}, where its coordinator keeps it ({setting})"
    ),
    "coordinators-log-in-doubt": "it is unknown whether its coordinator lawfully forgot it: {doubt}",
    "appended-without-asking": (
        "a record may have come after its transaction's end, and before Kafka 3.6 (KIP-890) leaders did not ask"
    ),
    "appended-in-doubt": "it is unknown whether a record may have come after its transaction's end: {doubt}",
    # ---- groups
    "one-generation-two-members": "one generation gave a partition to two members",
    "group-offsets-on-a-lost-disk": "{doubt}",
    "group-offsets-elected-uncleanly": "{doubt}",
    "group-offsets-expired": "the group's offset had expired ({setting})",
    "group-empty-without-offsets": "the group had no offsets, and was removed when it had no members ({setting})",
    "group-offsets-deleted": "a topic was deleted, and with it its offsets",
    "group-offsets-committed-by-somebody": (
        "by the group's own log a client that nobody recorded had committed {offset} since"
    ),
    "group-offsets-deleted-by-somebody": "{doubt}",
    "group-offsets-told-by-whom": "{doubt}",
    "group-offsets-destroyed": (
        "the disks of every in-sync copy of {partitions}, where the group is kept, were lost ({nodes})"
    ),
    "group-offsets-lost-in-an-election": (
        "{nodes} was elected uncleanly, in epoch {epoch} of {partitions}, where the group is kept ({setting})"
    ),
    "group-offsets-in-doubt": (
        "it is unknown whether that was lawfully lost with {partitions}, where the group is kept: {doubt}"
    ),
    "old-generation-committed": "the coordinator has to refuse a commit with the generation before",
    "replaced-member-committed": "the coordinator has to refuse a member that was replaced under its group.instance.id",
    "given-up-and-committed": "a coordinator checks who is a member, and in which generation, not who owns a partition",
    "generation-only-rises": "a generation is in the group's log before a member hears of it, and only rises",
    "generation-perhaps-told-late": "a fault may have kept the older one from its member until then",
    "commits-are-not-compared": "a coordinator stores any offset, and compares it with no log",
    "transaction-perhaps-pending": "the end of its transaction may still have been pending",
    "commit-perhaps-overwritten": "{doubt}",
    "committed-is-delivered-once": "what is committed is delivered once",
    "committed-before-it-was-read": "an offset was committed before its records were read",
    "committed-and-never-read": "an offset was committed beyond records that nobody read",
    "redelivered-uncommitted": "nothing beyond them had been committed when they were read again",
    "redelivered-unknown": ("whether anything beyond them had been committed when they were read again, nobody knows"),
    "redelivered-held-on": ("they were committed only after the assignment in which they were read again had begun"),
    "redelivered-sought": ("they had been committed, and the member that read them again had sought in the partition"),
    "redelivered-after-commit": ("they had been committed before the assignment began in which they were read again"),
    "sought": "it had sought to {place}",
    "group-committed": "the group's committed offset was {offset}",
    "assigned-at": "it was assigned the partition at {offset}",
    "earliest-record": "it starts at the earliest record",
    # ---- an application
    "flow-in-doubt": "{doubt}",
    "output-never-sent": "the application sent none",
    "output-refused": "what the application sent was refused, or aborted with its transaction",
    "output-not-acknowledged": "nobody had acknowledged what the application sent",
    "output-sent-again": "the application sent them more than once",
    # ---- cycles
    "moved-by-a-permitted-loss": "a permitted loss moved the log ({check})",
    "moved-by-a-loss-in-doubt": "nobody knows whether a permitted loss moved the log ({check})",
    "reads-of-open-transactions": (
        "who reads uncommitted records may read a transaction's first ones while it goes on"
    ),
    "read-before-sent": "no record can be read before it was sent",
    "order-of-acknowledged": "a record that was acknowledged has its offset; what is sent later gets a higher one",
    "order-of-read": "what was acknowledged or read is in the log before what is sent later",
    "committed-readers-waited": ("every reader asked for committed records only, so each had to wait for the other"),
    "reads-of-uncommitted": "who reads uncommitted records may read those of transactions that read his",
    "writes-interleave": "Kafka does not isolate transactions' writes from each other: they interleave",
    # ---- the cluster and the run
    "ended-by-a-signal": "a signal that kafka-chaos did not send",
    "ended-untouched": "by itself, and nothing had been done to it or to the controllers",
    "ended-by-a-fault": "by itself, for what a fault had done",
    "ended-by-an-error-of-ours": "by an error of the reference cluster",
    "ended-in-doubt": "by itself, and whether for what faults had done nobody knows",
    "nobody-serves-them": "{nodes} ended by themselves, and nobody is left who could serve them",
    "min-insync-replicas-not-kept": "min.insync.replicas not kept",
    "two-leaders": "two leaders in one epoch",
    "epoch-of-no-log": "a leader answers with its batches as they lie in its log, stamp and all",
    "epochs-only-rise": "a leader stamps what it appends with its epoch, and epochs only rise along a log (KIP-101)",
    "epochs-before-kip-279": (
        "before Kafka 2.0 (KIP-279) a follower might be cut to its high watermark and go on with an older epoch"
    ),
    "epochs-of-a-damaged-log": "the log of {nodes} was damaged by a fault, and no checksum covers a batch's epoch",
    "high-watermark-only-rises": "a leader's high watermark only rises within its epoch, and nothing had restarted it",
    "high-watermark-of-a-process-unknown": (
        "a leader's high watermark only rises within its epoch, and whether it was the same process nobody knows"
    ),
    "log-of-another-topic": "a broker serves and follows only with the log of the topic itself (KIP-516)",
    "log-left-behind": "a broker that was not in sync may have the log of a topic that had the name before",
    "two-clocks": "two leaders' clocks may differ",
    "clock-set-back": "this machine's clock was set back by as much meanwhile, and brokers go by it",
    "clock-in-doubt": "{doubt}",
    "step-failed": "step {number}",
}


def cause_words(cause: Cause | OtherCause | None) -> str:
    """ "" for a finding whose sentence says all there is."""
    if cause is None:
        return ""
    if isinstance(cause, OtherCause):
        return cause.words
    if cause.code in _WORDS:
        return _filled(cause)
    if cause.code == "destruction":
        return f"the disks of every in-sync copy were lost ({nodes_words(cause.nodes)})"
    if cause.code == "log-start":
        hand = "by an unknown hand" if cause.doubt else "and no setting asks for that"
        return f"the log's start was moved to {cause.offset}, beyond them, {hand}"
    if cause.election is None:
        return "no election and no lost disk explains it"
    return _elected(cause, cause.election)


def _filled(cause: Cause) -> str:
    words = _WORDS[cause.code].format(
        by=cause.by,
        check=cause.check,
        doubt=doubt_words(cause.doubt) if cause.doubt is not None else "",
        epoch=cause.epoch,
        offset="an unknown offset" if cause.offset is None else cause.offset,
        place="the beginning" if cause.offset is None or cause.offset < 0 else f"offset {cause.offset}",
        nodes=nodes_words(cause.nodes),
        partitions=", ".join(cause.partitions),
        setting=", ".join(f"{setting.key}={setting.value}" for setting in cause.settings),
        number=cause.number,
    )
    return words if cause.settings else words.replace(" ()", "")


def _elected(cause: Cause, election: Election) -> str:
    who, end = f"broker {election.leader}", log_end_words(election)
    if cause.code == "unclean-election":
        forbidden = f", although {permission_words(election.permission)} forbids it,"
        unknown = f" ({permission_words(election.permission)}),"
        note = {True: ",", False: forbidden, None: unknown}[election.allowed]
        return f"{who}, elected uncleanly in epoch {election.epoch} with {end}{note} never had them"
    if cause.code == "fail-over":
        return f"{who} took over in epoch {election.epoch} with {end} and did not have them"
    if cause.code == "restart":
        return f"{who} led before and after, and began epoch {election.epoch} with {end}"
    if cause.code == "clean-election":
        elr = election.leader in election.elr_before
        membership = "an eligible leader replica" if elr else "a member of the ISR"
        return f"{who}, {membership}, was elected cleanly in epoch {election.epoch} with {end} and did not have them"
    return permission_words(election.permission)
