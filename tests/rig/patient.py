"""The command `v010-adapter`, with simulated runtimes that wait longer than a slow machine needs. Run as a file."""

import sys

from nri.testing.flavour import Flavour
from v010_adapter.cli import entry

*names, _, _ = Flavour.__init__.__defaults__ or ()
Flavour.__init__.__defaults__ = (*names, 60.0, 60.0)
sys.exit(entry.main())
