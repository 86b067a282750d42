"""The plugin's tests run pytest inside pytest, with the plugin that is installed."""

# pytester forgets what an inner run imported; what is there before is imported only once.
import pyocd.core.helpers  # noqa: F401
import pytest
from plugin_suite import dense_model

import hil.cli.doctor
import hil.device.session
import hil.page.page
import hil.results.read  # noqa: F401


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A test suite's folder with a model in it."""
    (pytester.path / "models").mkdir()
    (pytester.path / "models" / "tiny.tflite").write_bytes(dense_model())
    return pytester
