"""The running command, seen from outside: launched as containerd launches it, with the test as its runtime."""

import pytest

pytest.register_assert_rewrite(f"{__name__}.harness", f"{__name__}.process")
