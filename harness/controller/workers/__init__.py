"""The clients of the load: what a worker does, as processes of its own or as tasks of the harness's loop."""
