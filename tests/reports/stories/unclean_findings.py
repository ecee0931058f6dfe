"""What the checks find in the story of the unclean election, with the evidence that a page shows of it."""

import json
from typing import Any

from harness.history.facts import values
from tests.reports.stories.judged_folder import ELECTED_END, FIRST_LOST, LOST, at


def lost_values() -> list[int]:
    return [values.number(1, 180 + number) for number in range(LOST)]


def acknowledged_at(number: int) -> float:
    return 7.513 + number * 0.0137


def _evidence_of_loss(classification: str) -> dict[str, Any]:
    permitted = classification == "permitted"
    first, last = FIRST_LOST, FIRST_LOST + LOST - 1
    allowed = "topic setting unclean.leader.election.enable=" + ("true" if permitted else "false")

    def link(time_ns: float, event: str, sentence: str, **more: Any) -> dict[str, Any]:
        empty = dict.fromkeys(("epoch_before", "epoch_after", "offset_before", "offset_after", "fault"))
        return {
            "t_ns": at(time_ns),
            "event": event,
            "sentence": sentence,
            "decisive": False,
            "nodes": [],
            **empty,
            **more,
        }

    return {
        "cause": "unclean-election",
        "by_time": False,
        "cause_chain": [
            link(
                4.004,
                "fault",
                "Fault 0 began: cut 2>1 3>1. Seen: request from broker 2 to broker 1 unanswered for 100 ms; "
                "broker 3 to n100 untouched",
                nodes=[2, 3],
                fault=0,
                t_end_ns=at(10.502),
            ),
            link(
                7.511,
                "isr-shrink",
                "The ISR shrank from [1, 3] to [1]: broker 3 no longer had to confirm a write. The cut had held their "
                "fetches from broker 1 for 3.5 s.",
                nodes=[3],
                epoch_before=1,
                epoch_after=1,
                isr_before=[1, 3],
                isr_after=[1],
                leader=1,
                held_by="cut",
                held_s=3.507,
            ),
            link(
                7.513,
                "acknowledged",
                f"{LOST} records were acknowledged with acks=all in epoch 1 at offsets {first}-{last}; the ISR was "
                "[1].",
                t_end_ns=at(acknowledged_at(LOST - 1)),
                epoch_before=1,
                epoch_after=1,
                offset_before=first,
                offset_after=last,
                count=LOST,
                acks=[-1],
                in_sync=[1],
            ),
            link(8.022, "fault", "Fault 1 began: kill 1. Seen: process 4711 gone", nodes=[1], fault=1),
            link(
                8.44,
                "election",
                f"Broker 2 was elected uncleanly leader of orders-0 in epoch 2 with log end {ELECTED_END}; "
                "the ISR before was broker 1.",
                decisive=True,
                nodes=[2],
                epoch_before=1,
                epoch_after=2,
                offset_before=last + 1,
                offset_after=ELECTED_END,
                unclean=True,
            ),
            link(
                13.6,
                "truncation",
                f"Broker 1 truncated its log from {last + 1} to {ELECTED_END}, following epoch 2 (diverging epoch).",
                nodes=[1],
                epoch_after=2,
                offset_before=last + 1,
                offset_after=ELECTED_END,
                reason_text="diverging epoch",
            ),
        ],
        "rules": [
            {
                "rule": "An unclean election that the configuration allows came between acknowledgement and loss.",
                "holds": permitted,
                "evidence": f"Epoch 2 began at offset {ELECTED_END} under broker 2; the ISR before was [1], so the "
                f"election was unclean; {allowed}.",
                "name": "unclean-election",
                "setting": {
                    "key": "unclean.leader.election.enable",
                    "value": "true" if permitted else "false",
                    "scope": "topic",
                    "of_scenario": False,
                },
            },
            {
                "rule": "It was acknowledged with acks=1 and leadership went to a broker whose log did not have it.",
                "holds": False,
                "evidence": "It was acknowledged with acks=all.",
            },
            {
                "rule": "Every in-sync copy was destroyed.",
                "holds": False,
                "evidence": "No disk was lost after the acknowledgement.",
            },
        ],
        "elected": 2,
        "elected_epoch": 2,
        "elected_log_end": ELECTED_END,
        "elected_log_end_from": "evidence journal of broker 2",
        "unclean": True,
        "leader_before": 1,
        "isr_before": [1],
        "isr_after": [2],
        "isr_at_acknowledgement": [1],
        "truncations": [],
        "disk_losses": [],
        "log_ends": [
            {
                "replica": 1,
                "log_end_offset": last + 1,
                "state": "leader before",
                "in_isr": True,
                "source": "kill snapshot",
            },
            {"replica": 2, "log_end_offset": ELECTED_END, "state": "elected", "in_isr": False, "source": "journal"},
            {"replica": 3, "log_end_offset": 258, "state": "", "in_isr": False, "source": "end snapshot"},
        ],
        "lost_range": {"first": first, "last": last},
        "remedies": [
            {"code": "no-unclean-election", "key": "unclean.leader.election.enable", "value": "false", "nodes": [1]},
            {"code": "more-in-sync", "key": "min.insync.replicas", "value": "2", "in_sync": [1]},
        ]
        if permitted
        else [],
        "prevention": [
            "With unclean.leader.election.enable=false the partition would have stayed without a leader until broker 1 "
            "came back, and nothing acknowledged with acks=all would have been lost.",
            "With min.insync.replicas=2 none of these records would have been acknowledged: the ISR was [1].",
        ]
        if permitted
        else [],
    }


def _finding(finding: str, check: str, classification: str, sentence: str, **more: Any) -> dict[str, Any]:
    return {
        "finding": finding,
        "check": check,
        "classification": classification,
        "kind": "lost",
        "topic": "orders",
        "partition": 0,
        "count": 1,
        "values": [],
        "offsets": [],
        "operations": [],
        "faults": [],
        "sentence_text": sentence,
        "fingerprint": f"{check}-0f3a",
        "evidence": "{}",
        **more,
    }


def findings(classification: str) -> list[dict[str, Any]]:
    first, last = FIRST_LOST, FIRST_LOST + LOST - 1
    cause = f"broker 2, elected uncleanly in epoch 2 with log end {ELECTED_END}, never had them"
    span = {"offset_first": first, "offset_last": last, "offsets": list(range(first, last + 1)), "count": LOST}
    acknowledged = {
        "first_ns": at(7.513),
        "last_ns": at(acknowledged_at(LOST - 1)),
        "leader_epoch": 2,
        "cause_text": cause,
    }
    evidence = json.dumps(_evidence_of_loss(classification))
    return [
        _finding(
            "F1",
            "lost-write",
            classification,
            f"{LOST} records acknowledged with acks=all in epoch 1 at offsets {first}-{last} of orders-0 are in no "
            f"replica's final log: {cause}.",
            values=lost_values(),
            evidence=evidence,
            **span,
            **acknowledged,
        ),
        _finding(
            "F2",
            "unclean-election",
            classification,
            f"Broker 2, outside the ISR (broker 1), was elected leader of orders-0 in epoch 2 after epoch 1 with "
            f"log end {ELECTED_END} (topic setting unclean.leader.election.enable=true); {LOST} acknowledged records "
            f"lost; broker 1 truncated {ELECTED_END}-{last}; in force: cut 2>1 3>1, kill 1.",
            count=LOST,
            first_ns=at(8.44),
            last_ns=at(8.44),
            epoch=2,
            offset_first=ELECTED_END,
            offset_last=ELECTED_END,
            cause="topic setting unclean.leader.election.enable=true",
        ),
        _finding(
            "F3",
            "availability",
            "observation",
            "orders-0 took no write for 2.463 s from 8.019 s on; in force: cut 2>1 3>1, kill 1.",
            first_ns=at(8.019),
            last_ns=at(10.482),
        ),
    ]
