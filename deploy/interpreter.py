"""Whether an interpreter is built as those that people have: optimised by the profile of a run.

`python interpreter.py` prints what its own interpreter lacks, and fails if it lacks something.
"""

import sys
import sysconfig
from collections.abc import Mapping
from typing import Any


def shortcoming(values: Mapping[str, Any]) -> str:
    """Return what an interpreter with these values of sysconfig lacks, or nothing.

    Debian's rules (debian/rules of python3.13, also in Ubuntu) do not pass --enable-optimizations to configure. They
    build the target profile-opt, and then remove the profile's options from what sysconfig reads. PGO_PROF_USE_FLAG is
    empty there; configure itself never leaves it empty for GCC and clang.
    """
    if values.get("Py_DEBUG"):
        return "built with --with-pydebug"
    if "--enable-optimizations" in str(values.get("CONFIG_ARGS")) or values.get("PGO_PROF_USE_FLAG") == "":
        return ""
    return "built without --enable-optimizations"


if __name__ == "__main__":
    lacks = shortcoming(sysconfig.get_config_vars())
    sys.exit(f"{sys.executable} is {lacks}" if lacks else 0)
