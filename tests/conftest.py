"""Settings that hold for every test.

Properties have no deadline: how long one example takes is a fact of the machine and of what else runs on it, and a
test that fails because of that says nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

try:
    from hypothesis import settings
except ImportError:  # an environment that checks the pins alone
    pass
else:
    settings.register_profile("turnfold", deadline=None)
    settings.load_profile("turnfold")


@pytest.fixture(scope="session", autouse=True)
def own_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the default store of commands out of the home of whoever runs the tests."""
    before = os.environ.get("XDG_DATA_HOME")
    os.environ["XDG_DATA_HOME"] = str(tmp_path_factory.mktemp("data"))
    yield
    if before is None:
        del os.environ["XDG_DATA_HOME"]
    else:
        os.environ["XDG_DATA_HOME"] = before
