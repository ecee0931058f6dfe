"""Schedules drawn by chance. `draw` is pure: the same profile, system, seed and number give the same scenario."""

from harness.campaign.drawing.draw import draw
from harness.campaign.drawing.profiles import PROFILES, Profile, profile, profiles

__all__ = ["PROFILES", "Profile", "draw", "profile", "profiles"]
