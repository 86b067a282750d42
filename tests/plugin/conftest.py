"""The plugin's tests run pytest inside pytest, with the plugin that is installed."""

# pytester forgets what an inner run imported; what is there before is imported only once.
import hil.doctor
import hil.session  # noqa: F401
