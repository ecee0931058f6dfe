"""A whole run in one loop: virtual time, a network in memory, brokers as objects. One seed gives one history.

`loop.py` has the time, `machines.py` says whose code runs, `network.py` and `connection.py` carry the bytes, which
`frames.py` reads along, `no_way_out.py` ends what would leave all that. `nodes.py` starts and ends brokers in it,
`cluster.py` is what a run sees of them. Only this package may import the reference broker.
"""
