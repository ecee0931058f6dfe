"""Joins several proofs into one: a fault on many victims is in force when the last of them shows it."""

from collections.abc import Sequence

from harness.ports.cluster import Evidence


def joined(proofs: Sequence[Evidence]) -> Evidence:
    assert proofs, "a fault without a victim has no proof; the plan refuses it before it begins"
    return Evidence(
        t_ns=max(proof.t_ns for proof in proofs),
        sentence="; ".join(proof.sentence for proof in proofs),
        destroyed=tuple(event for proof in proofs for event in proof.destroyed),
    )
