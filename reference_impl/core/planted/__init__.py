"""What flaws are planted of each part: wrong rules, one small function each (core/flaws.py is their list)."""
