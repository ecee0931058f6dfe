"""Tests of the controller's decisions."""
