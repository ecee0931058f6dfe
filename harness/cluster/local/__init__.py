"""The local world: OS processes, a TCP link fabric, loopback addresses, ownership and the sweep."""
