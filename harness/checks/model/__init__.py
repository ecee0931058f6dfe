"""The history of one partition, as facts: elections, settings, lost disks, lost records."""
