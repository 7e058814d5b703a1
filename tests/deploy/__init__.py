"""What is released: wheels, chart, and the interpreter of the command."""
