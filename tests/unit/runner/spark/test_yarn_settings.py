"""The settings of YARN's clients: files, variables, names of ResourceManagers."""

import pytest
from yarn_site import site

from samzapy.errors import EnvironmentFailure
from samzapy.runner.spark.driver_address import check_yarn, resource_managers, yarn_settings


def test_settings_of_yarn_are_read_from_the_first_folder_that_has_them(tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "yarn-site.xml").write_text("<configuration>")
    first, second = site(tmp_path / "first", a="1"), site(tmp_path / "second", a="2")

    def found(hadoop, yarn=tmp_path, **conf):
        return yarn_settings({"HADOOP_CONF_DIR": str(hadoop), "YARN_CONF_DIR": str(yarn)}, conf)

    assert found(first, second) == {"a": "1"}
    assert found(tmp_path / "none", second) == found(broken, second) == {"a": "2"}
    assert found(tmp_path) == yarn_settings({}, {}) == {}
    assert found(first, **{"spark.hadoop.a": "3", "spark.hadoop.b": "4", "spark.b": "5"}) == {"a": "3", "b": "4"}


def test_resource_managers_are_found_under_each_way_of_naming_them():
    def found(**settings):
        return list(resource_managers({f"yarn.{key.replace('_', '.')}": value for key, value in settings.items()}))

    assert found() == []
    assert found(resourcemanager_hostname="rm.example") == ["rm.example"]
    given = found(resourcemanager_address="${yarn.resourcemanager.hostname}:8050", resourcemanager_hostname="rm")
    assert given == ["rm:8050", "rm"]
    assert found(resourcemanager_address="0.0.0.0:8032") == []
    assert found(resourcemanager_hostname="${yarn.resourcemanager.hostname}") == []


def test_a_machine_without_settings_of_yarn_is_refused_before_spark_starts(tmp_path):
    with pytest.raises(EnvironmentFailure) as none:
        check_yarn({})
    assert str(none.value) == (
        "Spark finds YARN by HADOOP_CONF_DIR or YARN_CONF_DIR, and neither is set: set one to the folder of the "
        "cluster's "
        "yarn-site.xml"
    )
    with pytest.raises(EnvironmentFailure) as empty:
        check_yarn({"YARN_CONF_DIR": str(tmp_path)})
    assert str(empty.value).startswith(f"YARN_CONF_DIR={tmp_path}: no yarn-site.xml there; ")
    check_yarn({"HADOOP_CONF_DIR": str(tmp_path), "YARN_CONF_DIR": str(site(tmp_path / "conf"))})


@pytest.mark.parametrize("own", ["SPARK_HOME", "SPARK_CONF_DIR"])
def test_a_spark_of_the_users_own_may_find_yarn_by_itself(own):
    check_yarn({own: "/opt/spark"})
