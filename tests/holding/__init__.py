"""Holding containers: with runc and crun themselves, without a runtime above them; and with a process of the tests."""
