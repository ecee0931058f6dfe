"""The container world: nodes are containers in the network namespaces of infra containers."""
