"""The coordinators of this broker's groups: their logs, terms and timers."""
