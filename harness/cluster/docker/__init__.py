"""The container world: nodes are containers that live in the network namespaces of infra containers."""
