"""A system of each kind, one after the other."""

import pytest
from system_under_test import SystemUnderTest
from systems import SYSTEMS


@pytest.fixture(params=SYSTEMS.values())
def system(request):
    under_test = SystemUnderTest(request.param(request))
    yield under_test
    under_test.close()
