"""What of a program's output stands in log lines and errors: its beginning, without the values of variables."""

from __future__ import annotations

import pytest

from adapter.job.driver import quoted


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (b"", "<empty>"),
        (b"oops\n", r"'oops\n'"),
        (b"\xff\x1b[31m", r"'\\xff\x1b[31m'"),
        (b"x" * 200, f"'{'x' * 200}'"),
        (b"x" * 201, f"'{'x' * 200}' …"),
        (b"/usr/bin/env: environ", "'/usr/bin/env: environ'"),
    ],
)
def test_an_output_is_shown_up_to_its_two_hundredth_byte(output: bytes, shown: str) -> None:
    assert quoted(output) == shown


@pytest.mark.parametrize("key", [b'"env"', b'"ENV"', b"'env'", rb"\"env\""])
@pytest.mark.parametrize("values", [b': ["PASSWORD=hunter2"]', b':["A', b"\n:\n{"])
def test_an_output_that_is_no_result_shows_no_values_of_variables(key: bytes, values: bytes) -> None:
    assert quoted(b"x{" + key + values) == "'x{' …"
