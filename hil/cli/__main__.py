"""``python -m hil.cli``: the same as ``hil``."""

import sys

from hil.cli import main

sys.exit(main())
