"""Spark's session, its JVM, and the tables that are read into it."""
