"""The family `evidence`: contradictions in the recorded evidence, and evidence that is missing or insufficient."""
