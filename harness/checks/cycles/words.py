"""A cycle in plain English: who is who, then each step's reason, the last of which contradicts the first."""

from collections.abc import Callable

from harness.checks.cycles.model import REALTIME, RW, WR, Cycle, Step


def in_words(
    cycle: Cycle, *, operation_name: Callable[[int], str], record_name: Callable[[int, int], str], most_steps: int = 12
) -> str:
    """`operation_name(operation)`: "poll 3"; `record_name(partition_id, value)`: "5 to x". Long ones are shortened."""
    short = {name: f"T{number}" for number, name in enumerate(cycle.operations, start=1)}
    shown = cycle.steps[:most_steps]
    named = {name: short[name] for step in shown for name in (step.source, step.target)}
    who = "; ".join(f"{letter} is {operation_name(name)}" for name, letter in named.items())
    reasons = [_reason(step, short, record_name) for step in shown]
    left_out = len(cycle.steps) - len(shown)
    if left_out:
        reasons.append(f"{left_out} more steps lead back to T1")
    if len(reasons) == 1:
        return f"{who}. {reasons[0]}."
    return f"{who}. {'; '.join(reasons[:-1])}; yet {reasons[-1]}: these cannot all have happened in one order."


def _reason(step: Step, short: dict[int, str], record_name: Callable[[int, int], str]) -> str:
    source, target = short[step.source], short[step.target]
    if step.relation == REALTIME:
        return f"{source} had ended before {target} began"
    if step.partition_id is None or step.value is None:
        return f"{source} came before {target} ({step.name})"
    value = record_name(step.partition_id, step.value)
    if step.relation == WR:
        return f"{source} wrote {value} and {target} read it"
    following = (
        record_name(step.partition_id, step.next_value) if step.next_value is not None else "the record after it"
    )
    if step.relation == RW:
        return f"{source} read as far as {value} and {target} wrote {following}, the next in the log"
    return f"{source} wrote {value} and {target} wrote {following}, which stands right after it in the log"
