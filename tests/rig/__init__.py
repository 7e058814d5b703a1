"""What tests play with: README.md says which piece is for what."""
