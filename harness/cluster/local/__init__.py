"""The local world: OS processes, TCP forwarders as links, loopback addresses, ownership of processes and the sweep."""
