"""The running command, seen from outside: launched as containerd launches it, with the test as its runtime."""
