"""The Java that Spark and the development broker run on, its archives of classes, and the Spark that is installed as pyspark."""

from samzapy.java.archive import ClassArchive, cache_folder, chooses_archive, class_archive
from samzapy.java.finder import KAFKA, SPARK, Java, find_java
from samzapy.java.installed import InstalledSpark, installed_spark

__all__ = [
    "KAFKA",
    "SPARK",
    "ClassArchive",
    "InstalledSpark",
    "Java",
    "cache_folder",
    "chooses_archive",
    "class_archive",
    "find_java",
    "installed_spark",
]
