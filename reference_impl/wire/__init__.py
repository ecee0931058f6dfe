"""Framing and codecs: kafka-python's protocol classes behind one module, and record batch headers."""
