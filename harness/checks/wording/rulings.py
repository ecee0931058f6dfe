"""What a ruling rests on, in words: its rules and why they hold or do not, and what is unknown."""

from collections.abc import Mapping
from typing import Any

from harness.checks.contract.destruction import Destruction
from harness.checks.contract.rulings import (
    Doubt,
    DoubtCode,
    HeldToMore,
    NoLaterLeader,
    RuleEvidence,
    RuleName,
    Ruling,
    TookOver,
)
from harness.checks.model.elections import Election, Reading
from harness.checks.model.partition_history import Deletion
from harness.checks.model.unclean_rules import UNCLEAN_KEY, Permission, PermissionSource
from harness.checks.wording.words import nodes_words
from harness.history.facts.finding_facts import Setting

_RULES: Mapping[RuleName, str] = {
    "unclean-election": ("An unclean election that the configuration allows came between acknowledgement and loss."),
    "fail-over": "It was acknowledged with acks=1 and leadership went to a broker whose log did not have it.",
    "destruction": "Every in-sync copy was destroyed.",
    "deletion": "Its topic was deleted on request.",
    "min-insync-replicas": "It was acknowledged by as many in-sync replicas as min.insync.replicas demands.",
}
_ASKED: Mapping[bool | None, str] = {
    True: "A step of the plan asked for it.",
    False: "Nobody asked for it.",
    None: "Nobody knows who asked for it.",
}
_HELD_TO_MORE: Mapping[str, str] = {
    "acks-all": "It was acknowledged with acks=all.",
    "committed": "It was below a high watermark that was reported to a reader or to a log that held it: committed.",
}
_PERMISSIONS: Mapping[PermissionSource, str] = {
    "operator": "an operator asked for an unclean election",
    "operator-perhaps": (
        "an operator asked for an unclean election, and nobody knows whether of this partition and with success"
    ),
    "setting-changed": f"{UNCLEAN_KEY} was changed at about the time of the election, which is not known exactly",
    "brokers-differ": f"brokers differ in {UNCLEAN_KEY}, and nobody recorded which of them was controller",
}
_DOUBTS: Mapping[DoubtCode, str] = {
    "old-client-got-nothing": (
        "nothing that was recorded explains it, and whether the brokers or the client's library held it up is unknown"
    ),
    "nobody-answered": "no broker answered, though leaders and in-sync replicas were there",
    "polled-or-foreign": (
        "leaders and in-sync replicas were there as far as the brokers tell, and others may have touched the cluster"
    ),
    "not-all-in-sync": "not all replicas were in sync, and nothing that was recorded says why that mattered",
    "another-node-had-ended": (
        "{nodes}, which neither leads it nor had to have the record, had ended, and it is unknown whether that matters"
    ),
    "asked-for-a-moment": "it was not asked for as long as recovery may take",
    "may-wait-for-others": (
        "a coordinator may wait for members that it has not given up yet, and nothing shows whether it did"
    ),
    "stable-offset-stands": "it is unknown what holds it back",
    "end-told-by-whom": "nothing shows that the leader in force answered, and no deposed one",
    "end-told-to-whom": (
        "nothing shows whether a read_uncommitted reader was answered that, or a read_committed one, whose end may be "
        "held back by an open transaction"
    ),
    "end-told-before-the-mark": (
        "a high watermark above it was on disk at the end, and may have risen only after the question"
    ),
    "end-told-on-an-unknown-release": (
        "Kafka promises it since 2.2 (KIP-207), and it is unknown which release this is, or whether it is Kafka"
    ),
    "moved-by-somebody": (
        "it lies below the log's start, which no setting moved; others use this cluster too, and whether one of them "
        "asked for it to be removed (DeleteRecords) is not known"
    ),
    "acknowledged-by-a-deposed-leader": (
        "it may have been acknowledged by broker {node}, deposed before, which cut its offset later; that log was not "
        "read in between"
    ),
    "not-heard-of-its-successor": "broker {node}, deposed before, may have acknowledged it without having heard",
    "may-have-been-committed": (
        "a high watermark above it was written down, and it is unknown whether its own leader reported that one"
    ),
    "acknowledged-before-or-after": (
        "no log shows its epoch, and it was acknowledged when the leadership changed, before or after that"
    ),
    "cut-while-polled": (
        "a log gave it up before the leadership changed, and who was in sync then was only polled for"
    ),
    "lost-before-it-led": (
        "broker {node}, elected uncleanly without it, was seen with it before, and nothing that was recorded took it "
        "from its log"
    ),
    "which-leader-lost-it": (
        "no log that was read shows whether the leader of epoch {epochs} had it, or lost it later: the one would be "
        "permitted, the other not"
    ),
    "what-the-disks-held": (
        "nothing shows whether the disks that were lost held it, or whether it was seen after that"
    ),
    "disk-lost-while-polled": (
        "a disk was lost, and who was in sync then is known only by what brokers were heard to say, if at all"
    ),
    "no-epochs-told": "these brokers report no leader epochs, so nobody saw who was elected when",
    "unclean-while-polled": (
        "an unclean election was allowed, and of leaders and ISRs only what brokers were heard to say is known: "
        "it may have been unclean"
    ),
    "fail-over-while-polled": (
        "it was acknowledged with acks=1, and leadership may have gone to another broker and back unseen"
    ),
    "attempts-not-told": (
        "the producer is not idempotent, and what its client met is not known: it may have sent it again"
    ),
    "calls-of-several-tasks": (
        "both were in flight together, and it was not recorded when the calls returned: if several tasks called, the "
        "call that began later may have come first"
    ),
    "cut-or-twice": (
        "the partition was not read that far, and no log in sync shows whether it has both: one may have been cut "
        "before the other was written"
    ),
    "idempotence-not-told": "it is not known whether the producer is idempotent: if not, it may have sent one again",
    "another-client-of-its-id": "another client had its transactional id, whose end may have ended it too",
    "leader-may-not-have-known": "nothing shows that the leader knew of the shrink when it answered",
    "group-offsets-on-a-lost-disk": (
        "a disk was lost, and nobody recorded which copies of the group's offsets it held"
    ),
    "group-offsets-elected-uncleanly": (
        "unclean elections were allowed, and those of the group's offsets are not recorded"
    ),
    "producer-ids-in-doubt": "what the cluster remembered of the producer ids that it handed out may have been lost",
    "coordinators-log-on-a-lost-disk": (
        "a disk was lost, and nobody recorded whether it held the log of the transaction's coordinator"
    ),
    "coordinators-log-elected-uncleanly": (
        "unclean elections were allowed, and those of the transaction's coordinator are not recorded"
    ),
    "asked-on-an-unknown-release": (
        "leaders ask the coordinator before they append to a transaction since Kafka 3.6 (KIP-890), and it is unknown "
        "which release this is, or whether it is Kafka"
    ),
    "outputs-not-read": "outputs may lie in what was not read of {partitions}",
    "told-by-a-deposed-coordinator": (
        "a coordinator that had been replaced, and may not have heard of it, may have answered what it had by then"
    ),
    "answered-by-which-record": (
        "a commit that was sent again stands in the group's log before and behind it, and it is unknown which of its "
        "records was answered"
    ),
    "deleted-by-somebody": (
        "by the group's own log it was deleted since; others than the recorded clients may have asked for that, and "
        "whether one of them did is not known"
    ),
    "clock-in-doubt": "brokers go by their machine's clock, and whether that was set back meanwhile is not known",
    "told-by-a-deposed-leader": (
        "the leader of epoch {epochs} had been replaced and may not have known it: it may have answered that its log "
        "ends below, where readers without leader epochs (KIP-320) begin anew"
    ),
    "inputs-moved": "it is unknown whether the records whose offsets others got were lawfully lost",
    "outputs-gone-with-a-topic": "outputs may have gone with a topic that was deleted",
    "topic-deleted-by-somebody": (
        "its topic was deleted, and others use this cluster too: nobody knows who asked for it"
    ),
    "brokers-keep-differently": (
        "brokers have different settings, not all of which allow it, and nobody knows whose log readers were given"
    ),
    "keys-not-told": "nobody recorded its key, so that any later record may have replaced it",
    "sizes-not-told": "nobody recorded how large the application's records are",
    "stamps-not-told": "nobody recorded its timestamp, which an application may set as it likes",
    "later-one-may-be-lost": "the later one was lost itself, and a log may have been compacted for it before that",
    "marker-may-be-lost": (
        "every in-sync log has it, and the marker that commits it may have been lawfully lost, so that a later one of "
        "its producer aborted it"
    ),
    "end-marker-may-be-lost": "the marker that ended its transaction there may have been lawfully lost",
    "decision-may-be-lost": (
        "every in-sync log has it, and the transaction's coordinator may have lawfully lost the decision to commit it"
    ),
    "commits-not-kept": "nobody kept what groups commit",
    "nothing-committed": "no such group committed an offset of {partitions}",
    "several-groups": "several groups committed offsets of {partitions}, and which is the application's nobody told",
    "inputs-not-read": "more inputs may have been in what was not read of {partitions}, or is there no more",
    "read-for-which-group": "whether who was given it reads for the group nobody told",
    "flow-ids-not-told": (
        "not each record of {partitions} has an id that was told: which output is of which input is not known"
    ),
    "no-producer-recorded": "no recorded producer wrote to {partitions}",
    "outputs-by-others": "somebody who was not recorded wrote to {partitions} too",
    "answer-may-be-missing": "{partitions} lost records, and the end of a journal with answers to such is missing",
    "output-in-an-open-transaction": "its output is in {partitions}, in a transaction whose outcome nobody knows",
    "lost-before-its-topic": "its topic was deleted, and it may have been lawfully lost before that",
}


def setting_words(setting: Setting) -> str:
    words = f"{setting.key}={setting.value}"
    if setting.scope == "default":
        return f"Kafka's default {words}"
    return f"{setting.scope} setting {words}{' of the scenario' if setting.of_scenario else ''}"


def permission_words(permission: Permission) -> str:
    """What allows or forbids an unclean election."""
    if permission.setting is not None:
        return setting_words(permission.setting)
    return _PERMISSIONS[permission.source]


def doubt_words(doubt: Doubt) -> str:
    if doubt.rule is not None:
        return evidence_words(doubt.rule.evidence).rstrip(".")
    return _DOUBTS[doubt.code].format(
        node=doubt.node,
        nodes=nodes_words(doubt.nodes),
        epochs=", ".join(map(str, doubt.epochs)),
        partitions=", ".join(doubt.partitions),
    )


def rules_as_json(ruling: Ruling) -> list[Mapping[str, Any]]:
    """For pages: name, holds, setting are facts; the rest is for people."""
    return [
        {
            "name": each.rule,
            "rule": _RULES[each.rule],
            "holds": each.holds,
            "evidence": evidence_words(each.evidence),
            "setting": None if each.setting is None else each.setting.as_dict(),
        }
        for each in ruling.rules
    ]


def evidence_words(evidence: RuleEvidence) -> str:
    """Why a rule holds or does not."""
    if isinstance(evidence, NoLaterLeader):
        place = "its offset" if evidence.offset is None else f"offset {evidence.offset}"
        epoch = "unknown" if evidence.epoch is None else evidence.epoch
        return f"No leader after epoch {epoch} began its log at or below {place}."
    if isinstance(evidence, Election):
        return _election(evidence)
    if isinstance(evidence, HeldToMore):
        return _HELD_TO_MORE[evidence.why]
    if isinstance(evidence, TookOver):
        if not evidence.moved:
            return f"Broker {evidence.leader} led before and after: nothing failed over."
        end = "unknown" if evidence.start is None else evidence.start
        return f"Broker {evidence.leader} took over in epoch {evidence.epoch} with log end {end}."
    if isinstance(evidence, Destruction):
        return _destruction(evidence)
    if isinstance(evidence, Deletion):
        return _ASKED[evidence.asked]
    return f"min.insync.replicas={evidence.least}, and fewer were in sync."


def _election(election: Election) -> str:
    start = "an unknown offset" if election.start is None else f"offset {election.start}"
    elr = f" and the eligible leader replicas were {list(election.elr_before)}" if election.elr_before else ""
    what = (
        f"Epoch {election.epoch} began at {start} under broker {election.leader}; the ISR before was "
        f"{list(election.isr_before)}{elr}, so the election was {'unclean' if election.unclean else 'clean'}"
    )
    return f"{what}; {permission_words(election.permission)}." if election.unclean else f"{what}."


def _destruction(found: Destruction) -> str:
    if found.found == "no-disk-lost":
        return "No disk was lost after the record was last seen in sync."
    if found.found == "copy-left":
        nodes = sorted({loss.node for loss in found.losses})
        return f"Lost disks: broker {', '.join(map(str, nodes))}; another in-sync copy was left."
    elr = f" with the eligible leader replicas {list(found.elr)}" if found.elr else ""
    who = f"The ISR was {list(found.isr)}{elr}" if found.alone is None else f"Broker {found.alone} alone had to have it"
    disks = "; ".join(f"broker {loss.node} lost what its disk held ({loss.evidence})" for loss in found.losses)
    rest = "; nobody recorded whether one had it again, or still" if found.holds is None else ""
    return f"{who}; {disks}{rest}."


def reading_words(reading: Reading) -> str:
    """Where a log end was read."""
    if reading.source == "journal":
        return f"evidence journal of broker {reading.node}"
    if reading.source == "checkpoint":
        return f"leader-epoch-checkpoint of broker {reading.node} ({reading.reason} snapshot)"
    if reading.source == "snapshot":
        return f"{reading.reason} snapshot"
    if reading.source == "truncation":
        return "its truncation afterwards"
    differ = "replicas differ, and the leader left no word of its own"
    return differ if reading.source == "replicas-differ" else "not recorded"


def log_end_words(election: Election) -> str:
    if election.start is not None:
        return f"log end {election.start}"
    return "an unknown log end" if election.start_at_most is None else f"log end {election.start_at_most} at most"
