"""What happened to one partition, as facts: elections, settings, lost disks, lost records."""
