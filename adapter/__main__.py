"""`python -m adapter` is the command `v010-adapter`."""

import sys

from adapter.guard import main

sys.argv[0] = "v010-adapter"
sys.exit(main())
