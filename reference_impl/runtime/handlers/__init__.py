"""The handlers of client and peer requests, one module per API."""
