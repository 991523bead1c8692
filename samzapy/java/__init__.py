"""The Java that Spark and the development broker run on, and the Spark that is installed as pyspark."""

from samzapy.java.finder import KAFKA, SPARK, InstalledSpark, Java, find_java, installed_spark

__all__ = ["KAFKA", "SPARK", "InstalledSpark", "Java", "find_java", "installed_spark"]
