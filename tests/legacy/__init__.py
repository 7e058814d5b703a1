"""The legacy bridge, part by part; its programs are real, its clock is not."""
