"""The patterns of Kafka's log lines, in all spellings of 0.9.0.1, 0.10.2.2, 1.1.1, 2.8.2, 3.9.1 and 4.3.1.

One table: for each event, the spellings of all versions. Tests check every spelling with a line of a real broker; four
rare ones with the strings of its jar.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

# Our format (kafka_log_configuration.py), and Kafka's default format with brackets around the time.
LINE = re.compile(r"\[?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]? ([A-Z]+) (.*) \([\w.$]+\)")

_TP = r"(?P<tp>\[[^\[\],]+,\d+\]|[\w.-]+-\d+)"  # [t,0] up to 0.10, then t-0
_LOG = rf"\[(?:Unified)?Log partition={_TP}, dir=[^\]]*\] "
_LOADING = rf"\[(?:LogLoader|Log) partition={_TP}, dir=[^\]]*\] "
_PARTITION = rf"\[Partition {_TP} broker=\d+\] "
_SET = r"(?:Set\(|List\()?(?P<{}>\d[\d, ]*|)\)?"  # 1,2
_FROM_TO = rf"from {_SET.format('before')} to {_SET.format('after')}"

PATTERNS: Mapping[str, tuple[str, ...]] = {
    "leader": (
        rf"Leader {_TP} (?:with topic id \S+ )?starts at leader epoch (?P<epoch>\d+) from offset (?P<offset>\d+) with "
        r"(?:partition epoch \d+, )?high watermark (?P<high>\d+),? ISR \[(?P<isr>[\d, ]*)\]",
        rf"{_PARTITION}\S+ starts at Leader Epoch (?P<epoch>\d+) from offset (?P<offset>\d+)\.",
    ),
    "follower": (
        rf"Follower {_TP} (?:with topic id \S+ )?starts at leader epoch (?P<epoch>\d+) from offset (?P<offset>\d+) "
        r"with (?:partition epoch \d+ and )?high watermark (?P<high>\d+)",
    ),
    # Up to 1.1 at TRACE: the requested role, then the completed transition.
    "asked": (
        r"[Rr]eceived LeaderAndIsr request PartitionState\(controllerEpoch=\d+, leader=(?P<leader>-?\d+), "
        rf"leaderEpoch=(?P<epoch>\d+), isr=\[?(?P<isr>[\d, ]*?)\]?, zkVersion=.* for partition {_TP}$",
        r"[Rr]eceived LeaderAndIsr request \(LeaderAndIsrInfo:\(Leader:(?P<leader>-?\d+),ISR:(?P<isr>[\d,]*),"
        rf"LeaderEpoch:(?P<epoch>\d+),.* for partition {_TP}$",
    ),
    "became": (
        r"[Cc]ompleted LeaderAndIsr request .* for the become-(?P<role>leader|follower) transition for partition "
        rf"{_TP}$",
    ),
    "fetcher": (r"^\[ReplicaFetcherManager on broker \d+\] Added fetcher (?P<fetchers>.*)",),
    "loaded": (
        r"^Completed load of log (?P<tp>\S+-\d+) with (?:\d+ log segments and )?log end offset (?P<offset>\d+)",
        rf"^{_LOADING}Completed load of log with \d+ segments, log start offset \d+ and log end offset (?P<offset>\d+)",
        r"^Completed load of Log\(dir=\S*/(?P<tp>[\w.-]+-\d+), .*logEndOffset=(?P<offset>\d+)\)",
    ),
    "cutting": (
        rf"Truncating partition {_TP} with TruncationState\(offset=\d+, completed=\w+\) due to leader epoch and offset "
        r"EpochEndOffset\(.*leaderEpoch=(?P<epoch>-?\d+), endOffset=(?P<end>-?\d+)\)",
    ),
    "cutting_to_high_watermark": (
        rf"Truncating partition {_TP} (?:with TruncationState\(.*\) due )?to local high watermark \d+",
        rf"leader replied with an unknown offset in {_TP}\. The initial fetch offset \d+ will be used for truncation",
    ),
    "out_of_range": (
        rf"Replica \d+ for partition {_TP} reset its fetch offset from (?P<offset>\d+) to current leader \d+'s latest",
        rf"Reset fetch offset for partition {_TP} from (?P<offset>\d+) to current leader's latest",
    ),
    "restart_of_log": (
        rf"Replica \d+ for partition {_TP} reset its fetch offset from (?P<offset>\d+) to current leader \d+'s start "
        r"offset (?P<to>\d+)",
        rf"(?:Reset|Truncate fully and reset) fetch offset for partition {_TP} from (?P<offset>\d+) to (?:the )?"
        r"current leader's start offset (?P<to>\d+)",
    ),
    "cutting_below_high_watermark": (rf"Truncating {_TP} to offset \d+ below high watermark (?P<high>\d+)",),
    "truncation": (rf"^{_LOG}Truncating to offset (?P<to>\d+)$",),
    "old_truncation": (r"^Truncating log (?P<tp>\S+-\d+) to offset (?P<to>\d+)\.",),
    "no_truncation": (
        r"^Truncating (?P<tp>\S+-\d+) to (?P<to>\d+) has no effect as the largest offset in the log is (?P<last>-?\d+)",
        rf"^{_LOG}Truncating to (?P<to>\d+) has no effect as the largest offset in the log is (?P<last>-?\d+)",
    ),
    "records_deleted": (  # up to 1.1 the line does not say why
        rf"^{_LOG}Incremented log start offset to (?P<to>\d+) due to client delete records request",
    ),
    "high_watermark_lowered": (
        rf"^{_LOG}Non-monotonic update of high watermark from \(offset=(?P<before>\d+)\D.* to \(offset=(?P<to>\d+)\D",
    ),
    "isr_shrink": (
        rf"Shrinking ISR for partition {_TP} {_FROM_TO}",
        rf"{_PARTITION}Shrinking ISR {_FROM_TO}(?:\. Leader: \((?P<ends>[^)]*)\))?",
    ),
    "isr_expand": (
        rf"Expanding ISR for partition {_TP} {_FROM_TO}",
        rf"{_PARTITION}Expanding ISR {_FROM_TO}",
    ),
    "isr_updated": (rf"{_PARTITION}ISR updated to \[?{_SET.format('after')}\]? +and (?:zkV|v)ersion updated",),
    # A leader that takes over what its controller made of the ISR, in the same epoch (KRaft).
    "isr_learned": (
        rf"Skipped the become-leader state change for {_TP} with topic id .*, leaderEpoch=(?P<epoch>\d+), "
        r"partitionEpoch=(?P<version>\d+)\) and isNew=false since .* Current high watermark (?P<high>\d+), ISR \[",
    ),
    "isr_change_refused": (
        rf"Partition {_TP} on broker \d+: (?P<why>Cached zkVersion .* skip updating ISR)",
        rf"{_PARTITION}(?P<why>Cached zkVersion .* skip updating ISR)",
        rf"{_PARTITION}(?P<why>Failed to (?:update ISR|alter partition) to (?!PendingExpandIsr\b).*)",
    ),
    "isr_expand_refused": (rf"{_PARTITION}(?P<why>Failed to (?:update ISR|alter partition) to PendingExpandIsr\b.*)",),
    "epoch_fenced": (rf"Partition {_TP} has an older epoch \((?P<epoch>\d+)\) than the current leader",),
    "unclean_election": (
        rf"No broker in ISR is alive for {_TP}\. Elect leader (?P<leader>\d+) from live brokers",
        rf"The topic partition {_TP} was marked as RECOVERING\.",  # the elected broker, logged since 3.2
    ),
    "log_recovery": (
        r"^Recovering unflushed segment \d+ in log (?P<tp>\S+-\d+)\.",
        rf"^{_LOADING}Recovering unflushed segment \d+",
    ),
    # Up to 1.1 a torn tail is removed without a log line, while indexes are rebuilt.
    "corrupt_batch": (rf"^{_LOADING}Corruption found in segment \d+, truncating to offset (?P<to>\d+)",),
    "unclean_shutdown": (r"since no clean shutdown file was found",),
    "clean_shutdown": (r"since clean shutdown file was found",),
    "starting": (r"^starting$", r"^\[BrokerServer id=\d+\] Transition from SHUTDOWN to STARTING"),
    "started": (
        r"^\[Kafka ?Server (?:id=)?\d+\],? started$",
        r"^\[KafkaRaftServer nodeId=\d+\] Kafka Server started$",
    ),
    "start_failed": (r"^\[\w+ ?\w* (?:id=|nodeId=)?\d+\],? Fatal error during \w+ startup(?P<why>.*)",),
    "stopping": (r"^\[(?:Kafka ?Server|BrokerServer) (?:id=)?\d+\],? shutting down$",),
    "stopped": (r"^\[(?:Kafka ?Server|BrokerServer) (?:id=)?\d+\],? shut down completed$",),
}
_COMPILED = {kind: tuple(re.compile(words) for words in spellings) for kind, spellings in PATTERNS.items()}
FETCHERS = (  # several partitions per line; the old spelling has the high watermark, the newer ones the log end
    re.compile(rf"{_TP}, initOffset \d+ to broker BrokerEndPoint"),
    re.compile(rf"{_TP} -> InitialFetchState\(.*?BrokerEndPoint.*?[\])],(?P<epoch>\d+),(?P<offset>\d+)\)"),
)
Fields = Mapping[str, Any]


def matches(message: str) -> Iterator[tuple[str, Fields]]:
    """The events in a message, according to the table; at most one spelling per event matches."""
    for kind, spellings in _COMPILED.items():
        for spelling in spellings:
            if (match := spelling.search(message)) is not None:
                yield kind, match.groupdict()
                break
