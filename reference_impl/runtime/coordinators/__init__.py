"""The coordinators of this broker, of groups and of transactions: their logs, terms and timers."""
