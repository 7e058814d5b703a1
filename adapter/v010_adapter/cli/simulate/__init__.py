"""`v010-adapter simulate`: plays events to NRI plugins as a runtime does, and shows their answers."""
