"""Each planted flaw with a schedule that loses acknowledged writes with the flaw, and none without it."""

from reference_impl.core.flaws import with_flaws
from reference_impl.core.identifiers import ErrorCode
from tests.reference_impl.core.replication_world import World, lost


def unreplicated_then_leader_dies(world: World) -> list[str]:
    """Against R9: the followers are isolated, so an acknowledgement now comes too early."""
    world.write("before")
    world.fetch(2, 3, rounds=2)
    result = world.write("m")
    acknowledged = ["before"] + (["m"] if world.outcome(result) is ErrorCode.NONE else [])
    world.kill(1)
    world.notice_deaths()
    world.tell()
    return lost(world, acknowledged)


def test_acknowledged_before_replication_is_lost_with_the_leader() -> None:
    assert unreplicated_then_leader_dies(World(rules=with_flaws(["acknowledge-before-replication"]))) == ["m"]
    assert unreplicated_then_leader_dies(World()) == []


def acknowledged_just_now(world: World) -> None:
    """m is committed and acknowledged; the followers have it but have not heard so: their high watermark is behind."""
    world.write("before")
    world.fetch(2, 3, rounds=3)
    result = world.write("m")
    world.fetch(2, 3)
    for follower in (2, 3):
        world.ask(follower)  # the answers are on their way when the fault comes
    assert world.outcome(result) is ErrorCode.NONE
    assert [world.partitions[broker].high_watermark for broker in (1, 2, 3)] == [2, 1, 1]


def two_leaders_die_in_a_row(world: World) -> list[str]:
    """Against R6 and R17: 3 follows 2 and dies on, or leads on, before it has fetched anything again."""
    acknowledged_just_now(world)
    world.kill(1)
    world.notice_deaths()
    world.tell()
    world.kill(2)
    world.notice_deaths()
    world.tell()
    return lost(world, ["before", "m"])


def test_truncating_to_the_high_watermark_on_follow_loses_what_two_leaders_acknowledged() -> None:
    flawed = World(rules=with_flaws(["truncate-to-high-watermark-on-follow"]))
    assert two_leaders_die_in_a_row(flawed) == ["m"]
    (truncation,) = flawed.evidence[3].truncations
    assert (truncation.cut, truncation.reason) == (("m",), "high watermark on becoming follower")
    result = flawed.write("reuses the offset", acks=1)
    assert result.base_offset == 1
    sound = World()
    assert two_leaders_die_in_a_row(sound) == []
    assert sound.evidence[3].truncations == []


def all_die_and_return(world: World) -> list[str]:
    """Against R50, with the ISR kept: every replica comes back to a checkpoint from before m."""
    world.write("before")
    world.fetch(2, 3, rounds=3)
    world.checkpoint()
    result = world.write("m")
    world.fetch(2, 3, rounds=2)
    assert world.outcome(result) is ErrorCode.NONE
    for broker in (1, 2, 3):
        world.kill(broker)
    for broker in (1, 2, 3):
        world.start(broker)
    world.tell()
    return lost(world, ["before", "m"])


def test_truncating_to_the_checkpoint_at_start_loses_what_was_acknowledged_after_it() -> None:
    flawed = World(rules=with_flaws(["truncate-to-high-watermark-at-start"]))
    assert all_die_and_return(flawed) == ["m"]
    assert [evidence.truncations[0].reason for evidence in flawed.evidence.values()] == ["high watermark at start"] * 3
    assert all_die_and_return(World()) == []


def test_a_restarted_follower_that_cut_itself_loses_an_acknowledged_write_with_its_leader() -> None:
    """As KIP-101 tells it: two replicas, the follower restarts, the leader dies before it has fetched again."""

    def story(world: World) -> list[str]:
        world.write("before")
        world.fetch(2, rounds=3)
        world.checkpoint(2)
        result = world.write("m")
        world.fetch(2, rounds=2)
        assert world.outcome(result) is ErrorCode.NONE
        world.kill(1)
        world.kill(2)  # both sessions end, the ISR stays: nobody is left to lead
        world.start(2)
        world.tell()
        return lost(world, ["before", "m"])

    flaw = with_flaws(["truncate-to-high-watermark-at-start"])
    assert story(World(rules=flaw, min_isr=1, replicas=(1, 2))) == ["m"]
    assert story(World(min_isr=1, replicas=(1, 2))) == []


def test_flaws_can_be_planted_together() -> None:
    rules = with_flaws(["acknowledge-before-replication", "truncate-to-high-watermark-at-start"])
    assert unreplicated_then_leader_dies(World(rules=rules)) == ["m"]
    assert all_die_and_return(World(rules=rules)) == ["m"]
