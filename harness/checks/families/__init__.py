"""The families of checks; each is one module with its query and its findings."""
