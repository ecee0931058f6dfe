"""One lost record followed from its sending to what stands in its place, from recorded evidence only."""
