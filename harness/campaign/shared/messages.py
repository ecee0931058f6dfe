"""What a campaign and the process that holds one of its shared clusters say to each other, a JSON line each."""

import msgspec


class Perform(msgspec.Struct, tag="perform", frozen=True, kw_only=True):
    """A run to be made now. scenario: its file. runs: the folder for its run folder, named after the run's number."""

    scenario: str
    seed: int
    runs: str


class Performed(msgspec.Struct, tag="performed", frozen=True, kw_only=True):
    """The run is over. error: why there is no run folder; "" if there is one."""

    error: str


class Between(msgspec.Struct, tag="between", frozen=True, kw_only=True):
    """What came of the health check after a run. unfit: why no run may follow; "" if one may. as_started: whether the
    controller is the broker that it is after a start."""

    unfit: str
    as_started: bool


class Unfit(msgspec.Struct, tag="unfit", frozen=True, kw_only=True):
    """The answer to Perform where the cluster is not well any more: nothing was begun."""

    why: str


Said = Performed | Between | Unfit
ENCODER = msgspec.json.Encoder()
READ_PERFORM: msgspec.json.Decoder[Perform] = msgspec.json.Decoder(Perform)
READ_SAID: msgspec.json.Decoder[Said] = msgspec.json.Decoder(Said)
