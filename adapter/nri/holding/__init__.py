"""Holds the start of one container, while the runtime is free to serve others.

**Where a container waits.** Between `create` and `start`, the container's process is the runtime's own init. It waits
at the FIFO `exec.fifo` in the runtime's directory of the container, until `start` opens the other end:

- runc: the init opens the FIFO for writing; `start` reads a byte (libcontainer/standard_init_linux.go, Init;
  container_linux.go, exec).
- crun: the init reads a byte; `start` opens the FIFO for writing and removes it (src/libcrun/status.c,
  libcrun_status_write_exec_fifo; container.c, container_init).

**Holding** exchanges this FIFO for another one, in one step of the kernel (RENAME_EXCHANGE). The init goes on waiting
at the FIFO that it has open, and `start` waits at the other one. To **let go**, the FIFOs are exchanged back, and the
byte of a `start` that already waits is passed on. To **refuse**, the init is killed: its `start` fails.

**Evidence.** Only an init that waits is touched: a descriptor of the process is the FIFO of this container at the
runtime's path, by device and inode, and the process is in the container's cgroup. A name or a command line is no
evidence, because a program chooses its own. A container that has started has closed the FIFO: it has no evidence any
more, whatever it does, and is neither held nor killed. The evidence is read before and after the exchange, and before
each kill.

**The keeper** is a process that does all of this for a plugin. It outlives the plugin: if the plugin has ended, or the
hold's limit is over, it ends the hold as the plugin has asked for. Each hold has a record, a small file, which the
keeper locks. If the keeper is killed, too, the next keeper ends the holds whose records nobody locks.

`evidence` reads /proc. `exchange` handles the two FIFOs. `keeper` is the process, `records` its files and messages.
`holds` is the plugin's side. The keeper imports none of nri's other modules: it is small.
"""
