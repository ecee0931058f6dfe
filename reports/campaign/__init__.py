"""The page of a campaign, from its folder's tables alone, and what is measured of each of its runs."""
