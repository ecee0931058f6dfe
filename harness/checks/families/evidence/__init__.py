"""The family `evidence`: what was recorded, held against itself, and what is missing or proves nothing."""
