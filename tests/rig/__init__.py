"""What tests play with: README.md says which piece is for what."""

import pytest

pytest.register_assert_rewrite(__name__)
