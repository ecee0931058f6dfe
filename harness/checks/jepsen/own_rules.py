"""What Jepsen's checker cannot see (jepsen.md 1.6), as kinds of our own beside Jepsen's; none renames one of his.

The queries give what a value's row does not: a transaction of which a part was seen, an acknowledgement below an
earlier one, a consumer that began behind the head of a log, and records that a group was given twice.
"""

from collections.abc import Mapping

# A consumer that was assigned a key starts at its beginning, unless an offset was committed there: such an offset can
# only be the end of what somebody had polled. After a seek to the beginning there is no unless.
_HEAD = """
select w.run, w.tp, w.process, w.op, w.i_first, w.first_value as value, w.first_at as at, w.assigned as op2
from (select * from {walk} where kind = 1 and first_at > 0 and read_before is null
    and (sought = assigned or direct = assigned)) w
left anti join (select run, tp, last_at, min(op) as op from {walk} where kind = 1 group by run, tp, last_at) e
  on w.run = e.run and w.tp = e.tp and w.first_at = e.last_at + 1 and e.op < w.op
    and not coalesce(w.sought = w.assigned, false)
"""

OWN_RULES: Mapping[str, str] = {
    "torn": """
        with sent as (
          select s.run, s.op, s.status, s.tp, s.value, v.read_any,
            bool_or(v.read_ok) over (partition by s.run, s.op) as seen,
            bool_or(v.read_ok) over (partition by s.run, s.op, s.tp) as seen_here
          from {records} s join {values} v on s.run = v.run and s.tp = v.tp and s.value = v.value
          where s.kind = 0 and s.txn is not null and s.status <> 1
        )
        select distinct run, op, tp, value, status as number, if(seen_here, 1, 0) as at
        from sent where seen and not read_any""",
    "acknowledged-offset-regression": """
        with said as (
          select run, tp, op as event, off, process, op, value, false as asks
          from {records} where kind = 0 and status = 0 and off is not null
          union all
          select run, tp, i0, off, process, op, value, true
          from {records} where kind = 0 and status = 0 and off is not null
        ), heard as (
          select *, max(if(asks, null, named_struct('off', off, 'process', process, 'op', op, 'value', value))) over (
            partition by run, tp order by event range between unbounded preceding and 1 preceding) as high
          from said
        )
        select run, tp, op, off, value, high.op as op2, high.value as value2, high.off as number
        from heard where asks and high.off > off and high.process <> process""",
    "head-skip": _HEAD,
    "value-at-head": f"""
        with wanted as (select distinct run, tp, explode(sequence(0, at - 1)) as index from ({_HEAD}) h)
        select o.run, o.tp, o.index as at, o.value
        from {{orders}} o join wanted w on o.run = w.run and o.tp = w.tp and o.index = w.index""",
    "group-redelivery": """
        with modes as (
          select run, op, f, status, last(if(f in ('assign', 'subscribe') and status = 0, f, null), true) over (
            partition by run, process order by op) as mode
          from {ops}
        ), delivered as (
          select r.run, r.tp, r.value, count(*) as deliveries, min(r.op) as op, max(r.op) as op2
          from {records} r left semi join (
            select * from modes where mode = 'subscribe' and f in ('poll', 'txn') and status = 0
          ) m on r.run = m.run and r.op = m.op
          where r.kind = 1
          group by r.run, r.tp, r.value having count(distinct r.process) > 1
        )
        select run, tp, count(*) as number, sum(deliveries) as at, min(value) as value, min_by(op, value) as op,
          min_by(op2, value) as op2
        from delivered group by run, tp""",
}

# Kinds of ours that make a history invalid.
BAD = frozenset({
    "phantom", "read-before-send", "acknowledged-offset-regression", "head-skip", "tail-loss",
    "seen-only-by-aborted-poll", "torn-transaction", "aborted-read-in-aborted-poll",
})  # fmt: skip
# Cycles with read-write edges, which Jepsen's code leaves out, between transactions: Kafka promises no serializability,
# so they are told. Between plain sends and polls, and with edges of real time, every poll that lags would be one.
READ_WRITE_CYCLES = frozenset({"G-single", "G2-item"})
# Kinds that tell more of what Jepsen's `unseen` already counts, or of what Kafka permits.
TOLD = READ_WRITE_CYCLES | frozenset({
    "acknowledged-without-offset", "unread-tail", "torn-transaction-candidate", "group-redelivery",
})  # fmt: skip
# Why there is no verdict, rather than a bad one.
NOT_SEARCHED = "cycles-not-searched"
INCONCLUSIVE = frozenset({"insufficient-evidence", "no-data", NOT_SEARCHED})
