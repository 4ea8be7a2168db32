"""Fixtures and the libraries that they import are for processes that run tests.

Of several processes (pytest-xdist) the first only hands tests out, and needs none of it.
"""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Take the fixtures where tests are run."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.import_plugin("shared_fixtures")
