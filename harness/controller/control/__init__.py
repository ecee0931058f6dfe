"""A cluster that somebody else's tests command, line by line, over a socket: what may be asked and what is answered."""
