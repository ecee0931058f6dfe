"""Spark checks: pure functions from DataFrames to findings. Only this package imports pyspark."""
