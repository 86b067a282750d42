"""The plugin's tests run pytest inside pytest, with the plugin that is installed."""

# pytester forgets what an inner run imported; what is there before is imported only once.
import pyocd.core.helpers  # noqa: F401

import hil.cli.doctor
import hil.device.session  # noqa: F401
