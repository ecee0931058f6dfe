"""A world that knows the truth: a small simulated Kafka that judges our verdicts.

From a seed, `storylines` draws a cluster, its faults and perhaps a flaw; `world`, `brokers`, `controller` and
`clients` play it out in virtual time and write a `chronicle` of everything that happened, also of what nobody could
see. `truth` reads from the chronicle what really took each lost record and whether the promise allows that;
`evidence` writes the tables that the harness would have recorded, less what `Sight` withholds. Checks that are
right agree with the truth.

There are several worlds, each with a drawing and seeds of its own (`drawing`): records; transactions, with coordinators
that keep their states in a replicated partition; groups, whose offsets and generations lie in one; settings that
change, under the defaults of several releases; producers with several sends under way (`in_flight`); offsets that are
sent to transactions (`processing`); nodes that end by themselves (`ends`); policies of compaction that
change (`cleaning`). What is broken there otherwise than by the loss of a record, `promises` and its like read from the
chronicle. `nightly` judges fresh seeds of all, and prints the counts.

Nothing here knows how the checks decide, and nothing here is tuned to agree with them: it follows the rules of
replication (docs/replication.md) and the wording of the promise alone.
"""
