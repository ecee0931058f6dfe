"""Retention on any replica at any time, with late messages, deaths and elections: only committed records are deleted,
every log begins with a committed record, and all other invariants of replication hold."""

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from reference_impl.core.partition import Applied
from reference_impl.core.retention import RetentionSettings
from tests.reference_impl.core.test_replication_model import BROKERS, Replication


class Retention(Replication):
    @rule(broker=BROKERS, retention_bytes=st.sampled_from([0, 1, 200, 400]))
    def delete_expired(self, broker: int, retention_bytes: int) -> None:
        partition = self.world.partitions.get(broker)
        if partition is None:
            return
        self.what_is_committed_is_so_for_ever()  # noted before any of it goes
        log = self.world.logs[broker]
        before, end = log.records, log.log_end_offset
        retention = RetentionSettings(retention_bytes=retention_bytes)
        partition.update_settings(replace(self.world.settings, retention=retention))
        partition.delete_expired(wall_clock_ms=0)
        kept = log.records
        assert kept == before[len(before) - len(kept) :]
        assert all(self.committed.get(record[0]) == record for record in before[: len(before) - len(kept)])
        assert log.log_end_offset == end

    @rule(broker=BROKERS)
    def fetch_and_begin_anew_if_out_of_range(self, broker: int) -> None:
        if broker not in self.world.partitions:
            return
        fetch = self.world.ask(broker)
        if fetch is None or self.world.deliver(fetch) is not Applied.OUT_OF_RANGE:
            return
        follower = self.world.partitions[broker]
        leader = self.world.partitions[follower.state.leader] if follower.state is not None else follower
        start = leader.earliest_offset(current_leader_epoch=-1)[1]
        end = leader.latest_offset(current_leader_epoch=-1, for_replica=True)[1]
        if start >= 0:
            follower.truncate_out_of_range(start, end, leader_epoch=fetch.position.current_leader_epoch)

    @rule(broker=BROKERS)
    def replicate_and_delete(self, broker: int) -> None:
        """A leader that keeps nothing, and a follower that was away."""
        self.write_and_replicate({1, 2, 3}, 3, -1)
        self.delete_expired(self.world.state.leader, 0)
        self.fetch_and_begin_anew_if_out_of_range(broker)

    @invariant()
    def every_log_begins_with_what_is_committed(self) -> None:
        committed_to = max(self.committed, default=-1) + 1
        for broker, partition in self.world.partitions.items():
            log = self.world.logs[broker]
            assert 0 <= log.log_start_offset <= partition.high_watermark <= log.log_end_offset
            assert log.log_start_offset <= committed_to
            entries = log.leader_epochs.entries
            assert all(entry.start_offset >= log.log_start_offset for entry in entries[1:])
            kept = [record for record in log.records if record[0] >= log.log_start_offset]
            for _, epoch, _ in kept[:1]:
                assert entries[0].epoch <= epoch


Retention.TestCase.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestRetention = Retention.TestCase
