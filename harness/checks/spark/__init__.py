"""Spark: its session and JVM, the tables as DataFrames, and the questions that it is asked."""
