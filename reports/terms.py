"""The page's glossary: Kafka's own terms, in a sentence each. (anchor, term, meaning)."""

TERMS = (
    (
        "isr",
        "ISR, in-sync replicas",
        "The replicas the leader counts as caught up. acks=all waits for exactly them, and only they may become leader "
        "unless unclean election is allowed.",
    ),
    (
        "epoch",
        "Leader epoch",
        "A number that rises with every new leader of a partition and is stamped on each record. Replicas compare "
        "epochs to find where their logs part.",
    ),
    (
        "hw",
        "High watermark",
        "The offset up to which every in-sync replica has the log. Consumers see only records below it.",
    ),
    (
        "leo",
        "Log end offset",
        "The offset the next record will get. A replica whose log ends at 1247 has 1246 as its last.",
    ),
    (
        "unclean",
        "Unclean election",
        "A leader chosen from outside the ISR because no in-sync replica is alive. Possible only with "
        "unclean.leader.election.enable=true; it drops whatever the new leader had not copied.",
    ),
    ("trunc", "Truncation", "A returning replica removes the end of its log that its leader does not have."),
    (
        "perm",
        "Permitted",
        "The configuration, together with the faults that really took effect, allows this outcome. It is reported and "
        "counted, but does not fail the run.",
    ),
    ("viol", "Violation", "The configuration promised that this would not happen. It fails the run."),
    (
        "ind",
        "Indeterminate",
        "The producer got no definite answer (an error, a time-out, a lost connection): the record may be in the log.",
    ),
    ("ref", "Refused", "The answer to the producer was that the record was not written, or it never left the client."),
    (
        "zombie",
        "Zombie leader",
        "A deposed leader that does not know it has been replaced. It may append records; it must not acknowledge them "
        "with acks=all.",
    ),
    (
        "ctl",
        "Controller",
        "The node that decides the leaders and ISRs of all partitions: a broker chosen through ZooKeeper, or one of "
        "KRaft's controllers, which may be apart from the brokers.",
    ),
    (
        "link",
        "Link, 2→1",
        "The connections that node 2 opens to node 1. A follower fetches over those it opens to its leader.",
    ),
    (
        "elr",
        "ELR, eligible leader replicas",
        "Replicas that left the ISR when it was at min.insync.replicas already, and still have every committed record "
        "(KIP-966). Electing one of them is clean.",
    ),
)

_OF_COMPARISON = (
    (
        "spread",
        "Spread",
        "The distance between the lowest and the highest of a column's repeats. Two columns are said to differ only "
        "when their medians are further apart than the wider of their spreads and no repeats overlap.",
    ),
    (
        "silence",
        "Time without a write",
        "The longest stretch in which no record of some one partition was acknowledged, from the fault on until the "
        "next fault begins.",
    ),
    (
        "newleader",
        "Until a new leader",
        "From the moment a fault's effect was seen until the last of the partitions whose leader it hit had another.",
    ),
    (
        "vacuous",
        "Vacuous",
        "The run was done, but never came into the situation that its scenario is about. Its numbers count; the "
        "promise was not put to the test.",
    ),
)
_OF_CAMPAIGN = (
    (
        "group",
        "Group",
        "All findings of one fingerprint, which is made of what was found and why, not of when: the same bug in two "
        "runs is one group.",
    ),
    (
        "smallest",
        "Smallest schedule",
        "The fewest faults with which a run of this campaign brought the finding about.",
    ),
    (
        "flaky",
        "Flaky",
        "The same plan was run more than once and did not always bring the finding about.",
    ),
    (
        "accepted",
        "Accepted",
        "Somebody wrote down why this finding is known and until when that holds. It is counted, and decides nothing.",
    ),
    (
        "situation",
        "Situation",
        "Circumstances in which a fault struck: its victim's role, the ISR, what changed, and the fault before.",
    ),
    (
        "inconclusive",
        "Inconclusive",
        "What was recorded proves neither that the promise held nor that it was broken.",
    ),
    (
        "error",
        "Error",
        "The run could not be done. It says nothing about the system.",
    ),
)
_SHARED = ("isr", "epoch", "unclean", "perm", "viol", "ind", "ref")
COMPARISON_TERMS = (*_OF_COMPARISON, *(term for term in TERMS if term[0] in _SHARED))
_VACUOUS = next(term for term in _OF_COMPARISON if term[0] == "vacuous")
CAMPAIGN_TERMS = (*_OF_CAMPAIGN, _VACUOUS, *(term for term in TERMS if term[0] in ("perm", "viol")))
