"""A broker's replicas: fetching, ISR proposals, parked requests, maintenance of their logs."""
