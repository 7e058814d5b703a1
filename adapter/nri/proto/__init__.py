"""Generated from proto/ by proto/generate.py: NRI's messages and ttRPC's envelopes."""
