"""Samples to snapshots, on Spark; the only room that imports pyspark."""
