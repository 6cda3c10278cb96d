"""Runs a WebAssembly program with this machine's files: python wasi.py PROGRAM ARGUMENT..., with
PyPI's package wasmtime."""

import os
import sys

import wasmtime


def main(program: str, *arguments: str) -> int:
    engine = wasmtime.Engine()
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    wasi = wasmtime.WasiConfig()
    wasi.argv = [program, *map(os.path.abspath, arguments[:2]), *arguments[2:]]
    wasi.inherit_stdout()
    wasi.inherit_stderr()
    wasi.preopen_dir("/", "/")
    store = wasmtime.Store(engine)
    store.set_wasi(wasi)
    try:
        linker.instantiate(store, wasmtime.Module.from_file(engine, program)).exports(store)[
            "_start"
        ](store)
    except wasmtime.ExitTrap as end:
        return end.code
    except wasmtime.Trap:
        return 134  # as a program that aborts
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
