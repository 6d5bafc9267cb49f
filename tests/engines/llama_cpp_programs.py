"""Ask llama-server and llama-cli what they make of the command lines in llama_cpp_commands.py. Run by hand:

    pip install llama-cpp-python==0.3.36 gguf==0.19.0
    pip download --no-binary :all: --no-deps llama-cpp-python==0.3.36    # its vendor/llama.cpp is the source
    cmake -B build -DLLAMA_BUILD_UI=OFF -DLLAMA_OPENSSL=OFF vendor/llama.cpp
    cmake --build build --target llama-server llama-cli
    python tests/engines/llama_cpp_programs.py build/bin

Writes a small file of each model, starts the programs with it until they are ready, and compares the lines of their logs
on the size of each cache with what is recorded.
"""

import ctypes
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gguf import GGUFReader, GGUFWriter
from llama_cpp_commands import COMMANDS, MODELS  # these lie beside this file and are no package
from llama_cpp_measure import LLAMA, load, metadata_of
from llama_cpp_measured import brief

PATIENCE = 60  # seconds
READY = ("server is listening", "all slots are idle")
_STAMP = re.compile(r"^[\d.]+ [A-Z] ")  # of a line of the log
_ERROR = re.compile(r"error|does not|requires|not support|must be")
_ALWAYS = {"llama-server": "--port 18391", "llama-cli": "-p a -st"}


def write(folder: Path, name: str) -> None:
    """The file of a model, with tensors of nothing in particular.

    llama.cpp's own file has keys that the model was made without, and that it would not take again: only its tensors
    are used.
    """
    arch, given = MODELS[name]
    tensors = folder / "tensors.gguf"
    save = LLAMA.llama_model_save_to_file
    save.restype, save.argtypes = None, (ctypes.c_void_p, ctypes.c_char_p)
    save(load(arch, given), str(tensors).encode())
    writer = GGUFWriter(folder / f"{name}.gguf", arch)
    for key, value in metadata_of(arch, given).items():
        match value:
            case _ if key == "general.architecture":
                pass
            case bool():
                writer.add_bool(key, value)
            case int():
                writer.add_uint32(key, value)
            case float():
                writer.add_float32(key, value)
            case str():
                writer.add_string(key, value)
            case list():
                writer.add_array(key, value)
    for tensor in GGUFReader(tensors).tensors:
        writer.add_tensor(tensor.name, tensor.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def said(programs: Path, file: Path, command: str) -> list[str] | str:
    """What a program says of its caches until it is ready, or the error that it ends with."""
    words = shlex.split(command)
    env = {**os.environ, "GGML_NO_BACKTRACE": "1"}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        env[name] = value
    program = words.pop(0)
    always = ["-m", str(file), "-lv", "4", "--no-warmup", *_ALWAYS[program].split()]
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        running = subprocess.Popen(
            [programs / program, *always, *words], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            ready = _wait(running, log)
        finally:
            running.kill()
            running.wait()
        log.seek(0)
        lines = [" ".join(_STAMP.sub("", line).split()) for line in log]
    if ready:
        return [found for line in lines if (found := brief(line)) is not None]
    return next((line for line in lines if _ERROR.search(line)), "")


def _wait(running: subprocess.Popen[bytes], log: tempfile._TemporaryFileWrapper) -> bool:
    """Whether the program comes to wait for requests."""
    end = time.monotonic() + PATIENCE
    while running.poll() is None and time.monotonic() < end:
        log.seek(0)
        text = log.read()
        if any(word in text for word in READY):
            return True
        time.sleep(0.05)
    return False


def main(programs: Path) -> None:
    """Run every command, and say which differ from what is recorded."""
    differing = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model in MODELS:
            write(folder, model)
        for each in COMMANDS:
            found = said(programs, folder / f"{each.model}.gguf", each.command)
            same = each.said in found if isinstance(found, str) and isinstance(each.said, str) else found == each.said
            if not same:
                differing += 1
                print(f"{each.model}: {each.command}: {found}, recorded {each.said}")
    print(f"{len(COMMANDS)} commands, {differing} differ from what is recorded")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
