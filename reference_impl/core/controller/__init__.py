"""The decisions of a controller: assignments, elections, ISR changes, the contents of the znodes."""
