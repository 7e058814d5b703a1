"""A socket between the adapter and the runtime that keeps back the adapter's answer to Synchronize."""

from __future__ import annotations

import shutil
import socket
import threading
from pathlib import Path
from typing import BinaryIO

NRI = "/run/nri/nri.sock"
HEADER = 8
PLUGIN_SERVICE = 1  # the connection on which the runtime calls the plugin, by the multiplexer's id
ANSWERS = 2  # answers of the plugin to the end of Synchronize, each in one frame: the first is Configure's


class Gate:
    def __init__(self, path: Path) -> None:
        self._listening = socket.create_server(str(path), family=socket.AF_UNIX)
        self._is_open = threading.Event()
        self.holds = threading.Event()  # set when the answer is there: the runtime waits for it
        threading.Thread(target=self._serve, daemon=True).start()

    def open(self) -> None:
        self._is_open.set()

    def _serve(self) -> None:
        adapter = self._listening.accept()[0]
        self._listening.close()
        with adapter, socket.socket(socket.AF_UNIX) as runtime:
            runtime.connect(NRI)
            back = threading.Thread(target=self._back, args=(runtime, adapter), daemon=True)
            back.start()
            with adapter.makefile("rb") as frames:
                self._pass_on(frames, runtime)
            runtime.shutdown(socket.SHUT_RDWR)
            back.join()

    def _back(self, runtime: socket.socket, adapter: socket.socket) -> None:
        with runtime.makefile("rb", buffering=0) as source, adapter.makefile("wb", buffering=0) as target:
            shutil.copyfileobj(source, target)
        adapter.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, frames: BinaryIO, runtime: socket.socket) -> None:
        answers = 0
        while header := frames.read(HEADER):
            answers += int.from_bytes(header[:4]) == PLUGIN_SERVICE
            frame = header + frames.read(int.from_bytes(header[4:]))
            if answers == ANSWERS and not self.holds.is_set():
                self.holds.set()
                self._is_open.wait()
            runtime.sendall(frame)
