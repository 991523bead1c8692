"""An RDD whose partitions have preferred locations, which Spark offers to Scala and Java only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark import RDD
from pyspark.serializers import CPickleSerializer


def placed(context: Any, elements: Sequence[str], locations: Sequence[str]) -> Any:
    """One partition for each element, all of them at one of `locations` if there is room within `spark.locality.wait`."""
    jvm, pickled = context._jvm, CPickleSerializer()  # noqa: SLF001  # the only way to it
    seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    preferred = seq(list(locations))
    pairs = [jvm.scala.Tuple2(bytearray(pickled.dumps(element)), preferred) for element in elements]
    tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
    made = context._jsc.sc().makeRDD(seq(pairs), tag)  # noqa: SLF001
    return RDD(made.toJavaRDD(), context, pickled)
