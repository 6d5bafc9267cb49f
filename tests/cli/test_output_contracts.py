"""What holds for all output: nothing drawn in a pipe, no crash in poor locales, exit status, help, completion."""

import contextlib
import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kvcalc
from kvcalc.library import loader

from .conftest import Call, Result


def process(*argv: str, **environment: str) -> Result:
    """Run kvcalc as a process with further environment variables."""
    done = subprocess.run(
        [sys.executable, "-m", "kvcalc", *argv],
        capture_output=True,
        check=False,
        text=True,
        encoding="utf-8",
        env=os.environ | environment,
    )
    return Result(done.returncode, done.stdout, done.stderr)


LOG = str(Path(__file__).parents[1] / "logs" / "vllm-llama3.3-70b.log")
PIPED = [
    ["llama3-70b"], ["llama3-70b", "--batch", "8", "--vram", "80GB", "--tp", "8"],
    ["gemma2-9b", "-c", "8k", "--explain"],
    ["deepseek-v3.2", "-c", "max", "--units", "si"], ["whisper-large-v3"],
    ["jamba-1.5-mini", "-c", "256k", "--kv-memory", "1GiB"],
    ["deepseek-v4-pro", "--explain", "--vram", "141GB", "--gpus", "8"], ["mamba-2.8b"], ["llama3-70b", "-c", "1m"],
    ["models"], ["models", "--family", "qwen"], ["models", "qwen3-next-80b"], ["models", "openelm-270m"],
    ["check", LOG], ["check", LOG, "--kv-dtype", "bf16"],
    ["sweep", "llama3-70b", "-c", "4k,8k", "-b", "1,2", "--tp", "2,3", "--gpu", "h100"],
    ["compare", "llama3-70b", "gpt2", "--tp", "8", "--vram", "80GB"],
    ["tradeoff", "llama3-70b"], ["tradeoff", "deepseek-v3.2", "-c", "128k", "-b", "32", "--gpu", "8xh100"],
]  # fmt: skip


@pytest.mark.parametrize("argv", PIPED, ids=" ".join)
def test_piped_output_draws_nothing(call: Call, argv: list[str]) -> None:
    """A pipe gets no box, bar, escape or ellipsis, no blank at a line's end, and tabs between fields alone."""
    result = call(*argv)
    assert result.status in (0, 1)
    assert re.findall(r"[\u2500-\u259f\x1b\u2026\r]", result.out) == []
    lines = result.out.splitlines()
    assert lines
    assert [line for line in lines if "\t" not in line or line != line.rstrip(" ") or "  " in line] == []


@pytest.mark.parametrize("form", ["plain", "json", "csv", "markdown"])
def test_color_settings_change_nothing_outside_tables(form: str) -> None:
    """Only a table has colour, whatever the environment asks for."""
    plain = process("llama3-70b", "-f", form)
    assert (
        plain
        == process("llama3-70b", "-f", form, FORCE_COLOR="1", TTY_COMPATIBLE="1")
        == process("llama3-70b", "-f", form, NO_COLOR="1")
    )
    assert ("\x1b" in plain.out, plain.status) == (False, 0)


def test_no_color_leaves_no_color_in_a_table() -> None:
    """NO_COLOR wins over FORCE_COLOR: no escape that sets a colour."""
    argv = ("llama3-70b", "--vram", "80GB", "-f", "table")
    colored = re.compile(r"\x1b\[(?:[0-9]*;)*(?:[34][0-8]|9[0-7])(?:;[0-9]*)*m")
    assert colored.findall(process(*argv, FORCE_COLOR="1", NO_COLOR="1", TERM="xterm-256color").out) == []
    assert colored.findall(process(*argv, FORCE_COLOR="1", TERM="xterm-256color").out) != []


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=str,
)
@pytest.mark.parametrize(
    "argv",
    [["llama3-70b"], ["llama3-70b", "-f", "table", "--vram", "80GB"], ["deepseek-v3", "--explain"],
     ["models"], ["models", "-f", "table"], ["sweep", "llama3-70b", "-c", "4k,8k", "--kv-memory", "2GiB", "-f", "table"],
     ["models", "gemma3-27b"], ["llama3-70b", "-f", "markdown"]],
    ids=" ".join,
)  # fmt: skip
def test_an_ascii_locale_is_no_crash(environment: dict[str, str], argv: list[str]) -> None:
    """Where only ASCII can be written, the answer is the same and the status too."""
    result, usual = process(*argv, COLUMNS="100", **environment), process(*argv, COLUMNS="100")
    assert (result.status, result.err) == (usual.status, "")
    assert result.out.isascii()
    assert re.findall(r"[0-9,.]+ [KMGT]?i?B", result.out) == re.findall(r"[0-9,.]+ [KMGT]?i?B", usual.out)


def test_a_foreign_name_is_no_crash_in_an_ascii_locale(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A preset whose name is not ASCII, or a faulty one in a folder that is not, can be spoken of in ASCII."""
    folder = tmp_path_factory.mktemp("données")
    text = "name: Modèle 1\ndtype: bf16\nheads: 4\nkv_heads: 2\nhead_dim: 64\nlayers: 2 full\n"
    (folder / "a-1.yaml").write_text(text, encoding="utf-8")
    (folder / "b-1.yaml").write_text(text.replace("heads: 4", "heads: x"), encoding="utf-8")
    for form in ("plain", "table", "json", "csv", "markdown"):
        assert process(str(folder / "a-1.yaml"), "-f", form, PYTHONIOENCODING="ascii").status == 0
    refused = process(str(folder / "b-1.yaml"), PYTHONIOENCODING="ascii")
    assert (refused.status, refused.out, refused.err.startswith("kvcalc: error: ")) == (2, "", True)


@pytest.mark.skipif(os.name != "posix", reason="a shell with pipefail")
@pytest.mark.parametrize("argv",
    ["models --json", "llama3-70b -f table --explain", "models -q", "--help", "--version",
     "sweep llama3.1-8b -c 1k..100k -b 1..100 -f csv", "sweep gpt2 -b 1..5000 --json"],
)  # fmt: skip
@pytest.mark.parametrize("reader", ["head -1", "true"])
def test_a_closed_pipe_is_success(argv: str, reader: str) -> None:
    """`kvcalc ... | head -1` succeeds under pipefail, in silence, every time."""
    script = (
        f"set -o pipefail; for i in 1 2; do {sys.executable} -m kvcalc {argv} | {reader} > /dev/null || exit 9; done"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
def test_a_full_disk_is_not_success() -> None:
    """An answer that could not be written is no answer: not status 0, and no "it does not fit" either."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kvcalc", "llama3-70b"], stdout=full, stderr=subprocess.PIPE, check=False, text=True
        )
    assert done.returncode not in (0, 1)
    assert "kvcalc: " in done.stderr


COMPLETE = {"_KVCALC_COMPLETE": "complete_bash", "COMP_WORDS": "kvcalc mod", "COMP_CWORD": "1"}
ANSWERS: list[tuple[list[str], dict[str, str]]] = [
    (["--help"], {}), (["size", "--help"], {}), (["--version"], {}), (["llama3-70b"], {}), (["models", "-q"], {}),
    ([], COMPLETE), ([], {"_KVCALC_COMPLETE": "source_bash"}),
]  # fmt: skip


def redirected(redirection: str, *argv: str, **environment: str) -> Result:
    """Run kvcalc from a shell, which can close streams, with a file's content for each stream that is left."""
    command = f'"$0" -m kvcalc "$@" {redirection}'
    done = subprocess.run(
        ["bash", "-c", command, sys.executable, *argv],
        capture_output=True, check=False, text=True, env=os.environ | environment,
    )  # fmt: skip
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
@pytest.mark.parametrize(("argv", "environment"), ANSWERS, ids=str)
def test_whatever_is_printed_is_printed_or_the_status_says_so(argv: list[str], environment: dict[str, str]) -> None:
    """Help, the version and completion keep to the same statuses: 2 on a full disk, 0 where nobody listens."""
    full = redirected("> /dev/full", *argv, **environment)
    assert (full.status, full.err) == (2, "kvcalc: error: standard output: No space left on device\n")
    assert redirected(">&-", *argv, **environment) == (0, "", "")
    assert redirected("| true; exit ${PIPESTATUS[0]}", *argv, **environment) == (0, "", "")


@pytest.mark.skipif(os.name != "posix", reason="a shell that closes streams")
@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full"])
def test_what_is_said_of_an_error_reaches_nothing_else(closed: str) -> None:
    """Without standard error, Python itself would print to standard output, where results alone stand."""
    assert redirected(closed, "llama3-7b") == (2, "", "")
    assert redirected(closed, "llama3-70b", "--contxt", "5") == (2, "", "")
    answer = redirected(closed, "llama3-70b", "-c", "1m", "--quiet")  # with a warning: above the model's limit
    assert answer == (0, f"{327_680 * 2**20}\n", "")


@pytest.mark.skipif(os.name != "posix", reason="a shell that closes streams")
def test_a_file_never_takes_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    """With all three closed a drawing is written whole, and nothing else is written into it."""
    path = tmp_path / "x.svg"
    argv = ("sweep", "llama3-70b", "-c", "4k,8k", "-b", "1,2", "--svg", str(path))
    assert redirected("<&- >&- 2>&-", *argv).status == redirected("", *argv).status == 0
    written = path.read_text(encoding="utf-8")
    assert (written.startswith("<svg"), written.rstrip().endswith("</svg>")) == (True, True)


def test_a_folder_on_standard_input_is_one_line(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kvcalc - < FOLDER`, where Python itself lets it come so far: CPython ends before with a line of its own."""

    class Folder:
        buffer = property(lambda self: self)

        def read(self, _: int) -> bytes:
            raise IsADirectoryError(21, "Is a directory")

    monkeypatch.setattr(sys, "stdin", Folder())
    for argv in (("-",), ("--", "-"), ("models", "--check", "-")):
        result = call(*argv)
        assert (result.status, result.out) == (2, "")
        assert result.err.splitlines()[0] == "kvcalc: error: <stdin>: Is a directory"


@pytest.mark.parametrize("columns", ["0", "", "00", "-5", "many"])
def test_a_width_that_is_none_is_not_taken(columns: str) -> None:
    """Some programs hand on COLUMNS=0; the table is then as wide as without it."""
    argv = ("llama3-70b", "--vram", "80GB", "-f", "table")
    assert process(*argv, COLUMNS=columns) == process(*argv, COLUMNS="80")


HEAD = "dtype: bf16\nheads: 4\nkv_heads: 2\nhead_dim: 64\nlayers: 2 full\n"


@pytest.mark.parametrize("name", ['=cmd|" /C calc"!A0', "+1+cmd", "-2+3+cmd", "@SUM(1)"])
def test_csv_holds_no_formula(call: Call, tmp_path: Path, name: str) -> None:
    """A spreadsheet runs a cell that begins like one: text stands behind an apostrophe, and numbers stay numbers."""
    path = tmp_path / "x.yaml"
    path.write_text(f"name: '{name}'\n{HEAD}", encoding="utf-8")
    for argv in ((str(path),), ("sweep", str(path), "-b", "1,2"), ("compare", str(path), "gpt2")):
        rows = list(csv.reader(call(*argv, "-f", "csv").out.splitlines()))
        cells = [cell for row in rows for cell in row]
        assert f"'{name}" in cells
        assert [
            cell for cell in cells if cell.startswith(("=", "+", "@", "\t", "\r")) or re.match("-(?![0-9.]+$)", cell)
        ] == []
    document = json.loads(call("llama3.1-8b", "--vram", "16GB", "-b", "4", "-c", "32k", "--json").out)
    assert document["fit"]["fits"] is False
    free = next(csv.DictReader(call("llama3.1-8b", "--vram", "10GB", "-f", "csv").out.splitlines()))
    assert float(free["fit.kv_budget_bytes_per_gpu"]) == 10**10 - 16_060_000_000  # below zero, and a number


def test_markdown_holds_no_link(call: Call, tmp_path: Path) -> None:
    """What a file calls itself becomes neither a link nor an image in the issue that it is pasted into."""
    path = tmp_path / "x.yaml"
    path.write_text(f"name: 'a[x](javascript:alert(1)) ![y](http://z)'\n{HEAD}", encoding="utf-8")
    out = call(str(path), "-f", "markdown").out
    assert out.startswith("**a\\[x\\](javascript:alert(1)) !\\[y\\](http://z)**")
    assert re.findall(r"(?<!\\)[\[\]]", out) == []


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_while_the_program_is_loaded_is_130() -> None:
    """The signal of Control-C at any import: no traceback. It is sent at each tenth of the modules that are loaded."""
    code = (
        "import importlib.abc, os, signal, sys\n"
        "class Finder(importlib.abc.MetaPathFinder):\n"
        "    left = int(sys.argv.pop())\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        Finder.left -= 1\n"
        "        if not Finder.left: os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from kvcalc.__main__ import main\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv[:] = ['kvcalc', 'llama3-70b']\n"
        "main()\n"
    )
    for at in range(1, 120, 12):
        done = subprocess.run([sys.executable, "-c", code, str(at)], capture_output=True, check=False, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (130, "", ""), at


def test_version_is_one_line(call: Call) -> None:
    """`--version` prints the name and the version that the package has."""
    assert call("--version") == (0, f"kvcalc {kvcalc.__version__}\n", "")


SIZE_OPTIONS = [
    "--context", "-c", "--batch", "-b", "--kv-dtype", "--k-dtype", "--v-dtype", "--kv-heads", "--encoder-tokens",
    "--tp", "--pp", "--dp",
    "--dcp", "--gpus", "--vram", "--kv-memory", "--utilization", "--weights", "--overhead",
    "--format", "-f", "--json", "--get",
    "--quiet", "-q", "--units", "--explain", "--help", "-h",
]  # fmt: skip
MODELS_OPTIONS = [
    "--family",
    "--attention",
    "--check",
    "--format",
    "-f",
    "--json",
    "--get",
    "--quiet",
    "-q",
    "--units",
    "--help",
]


CHECK_OPTIONS = [
    "--model", "-m", "--context", "-c", "--batch", "-b", "--kv-dtype", "--k-dtype", "--v-dtype", "--kv-heads",
    "--encoder-tokens", "--engine", "--gpu", "--kv-memory", "--tp", "--pp", "--dp", "--dcp", "--gpus", "--format", "-f", "--json",
    "--get", "--quiet", "-q", "--units", "--assume-dense", "--help", "-h",
]  # fmt: skip

GRID_OPTIONS = [*(option for option in SIZE_OPTIONS if option != "--explain"), "--gpu", "--engine", "--svg", "--html",
                "--assume-dense"]  # fmt: skip

TRADEOFF_OPTIONS = [
    "--input", "--prompt", "--output", "--context", "-c", "--batch", "-b", "--encoder-tokens", "--kv-dtype", "--k-dtype", "--v-dtype",
    "--kv-heads", "--gpu", "--gpu-file", "--tp", "--weights", "--parameters", "--link", "--bandwidth-share",
    "--compute-share", "--svg", "--format", "-f", "--json", "--get", "--quiet", "-q", "--units", "--assume-dense", "--help", "-h",
]  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--help"], [*SIZE_OPTIONS, "--version", "MODEL", "models", "Exit", "70", "130"]),
        (["-h"], [*SIZE_OPTIONS, "--version"]),
        (["size", "--help"], [*SIZE_OPTIONS, "MODEL"]),
        (["llama3-70b", "--help"], [*SIZE_OPTIONS, "MODEL"]),
        (["models", "--help"], [*MODELS_OPTIONS, "NAME"]),
        (["models", "-h"], MODELS_OPTIONS),
        (["check", "--help"], [*CHECK_OPTIONS, "LOG"]),
        (["sweep", "--help"], [*GRID_OPTIONS, "MODEL"]),
        (["tradeoff", "--help"], [*TRADEOFF_OPTIONS, "MODEL"]),
        (["compare", "--help"], [*GRID_OPTIONS, "MODEL"]),
    ],
    ids=lambda value: " ".join(value[:2]),
)
def test_help_names_every_option(call: Call, argv: list[str], words: list[str]) -> None:
    """Help goes to standard output, exits 0, and has each option as a word of its own."""
    result = call(*argv)
    found = set(re.findall(r"(?<![\w-])-{0,2}\w[\w-]*", result.out))
    assert (result.status, result.err, [word for word in words if word not in found]) == (0, "", [])


def test_no_arguments_is_the_help() -> None:
    """Who asks nothing is shown what can be asked, as by `--help`: status 0, nothing on standard error."""
    result = process()
    assert (result.status, result.err) == (0, "")
    assert result.out == process("--help").out


def test_an_error_of_ours_keeps_its_traceback(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug exits 70 with a traceback on standard error, so that it never reads as "it does not fit"."""

    def broken(_: str, **__: object) -> None:
        raise RuntimeError("a fault of the program")

    monkeypatch.setattr(loader, "load", broken)
    result = call("llama3-70b")
    assert (result.status, result.out) == (70, "")
    assert [
        word for word in ("Traceback", "RuntimeError: a fault of the program", "kvcalc: ") if word not in result.err
    ] == []


def test_an_interrupt_is_130(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control-C ends without a traceback."""

    def interrupted(_: str, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(loader, "load", interrupted)
    result = call("llama3-70b")
    assert (result.status, result.out, "Traceback" in result.err) == (130, "", False)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_process_that_is_interrupted_exits_130() -> None:
    """The signal of Control-C while a preset is read from standard input exits 130 without a traceback."""
    code = (
        "import signal, sys\n"
        "from kvcalc.library import loader\n"
        "from kvcalc.cli.main import main\n"
        "loader.load = lambda source, **_: signal.raise_signal(signal.SIGINT)\n"
        "main(['llama3-70b'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (130, "", False)


def completed(words: str) -> list[str]:
    """What bash would offer after `words`."""
    cword = len(words.split()) - (0 if words.endswith(" ") else 1)
    result = process(_KVCALC_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(cword))
    return result.out.split()


@pytest.mark.parametrize(
    ("words", "expected", "unexpected"),
    [
        ("kvcalc ", ["size", "models", "plan", "simulate", "llama3-70b", "gpt2"], ["--context"]),
        ("kvcalc mod", ["models"], ["llama3-70b"]),
        ("kvcalc llama3-7", ["llama3-70b"], ["llama3-8b", "models"]),
        ("kvcalc size gpt", ["gpt2", "gpt2-xl"], ["llama3-70b"]),
        ("kvcalc models gpt", ["gpt2", "gpt2-xl"], ["llama3-70b"]),
        ("kvcalc llama3-70b --get fit.max_", ["fit.max_batch", "fit.max_context"], ["fit.fits"]),
        ("kvcalc plan llama3-70b --get options.*.ma", ["options.*.max_batch"], ["options.max_batch"]),
        ("kvcalc --co", ["--context"], ["--batch"]),
        ("kvcalc llama3-70b --kv-", ["--kv-dtype", "--kv-heads", "--kv-memory"], ["--vram"]),
        ("kvcalc llama3-70b --kv-dtype ", ["auto", "fp8", "bf16", "q8_0", "nvfp4"], ["mxfp4"]),
        ("kvcalc llama3-70b --kv-dtype q", ["q8_0", "q4_0"], ["fp8"]),
        ("kvcalc llama3-70b --weights ", ["auto", "none", "mxfp4", "q4_k"], []),
        ("kvcalc llama3-70b --format ", ["table", "plain", "json", "csv", "markdown"], ["yaml"]),
        ("kvcalc size llama3-70b -f m", ["markdown"], ["json"]),
        ("kvcalc models --attention ml", ["mla"], ["gqa"]),
        ("kvcalc sweep llama3-7", ["llama3-70b"], ["llama3-8b"]),
        ("kvcalc sweep llama3-70b --kv-dtype bf16,fp", ["bf16,fp8", "bf16,fp16"], ["bf16,bf16"]),
        ("kvcalc compare llama3-70b gpt", ["gpt2", "gpt2-xl"], ["llama3-70b"]),
    ],
)  # fmt: skip
def test_completion_in_bash(words: str, expected: list[str], unexpected: list[str]) -> None:
    """Models, verbs, options, dtypes and formats complete, with and without the default verb, each once."""
    found = completed(words)
    assert [word for word in expected if found.count(word) != 1] == []
    assert [word for word in unexpected if word in found] == []


def on_a_terminal(*argv: str) -> Result:
    """Run kvcalc with both outputs on a pseudo-terminal of 100 columns; `out` is all that it shows."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": "100", "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-m", "kvcalc", *argv], stdout=theirs, stderr=theirs, env=environment
    ) as running:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # what Linux says at the end of a terminal
            while piece := os.read(ours, 65536):
                shown += piece
        os.close(ours)
    return Result(running.returncode, re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).replace("\r\n", "\n"), "")


def test_a_terminal_gets_a_table() -> None:
    """On a terminal the answer is drawn as with `--format table`, which no tab betrays as plain."""
    result = on_a_terminal("llama3-70b", "--batch", "8")
    assert (result.status, result.out) == process("llama3-70b", "--batch", "8", "-f", "table", COLUMNS="100")[:2]
    assert "\t" not in result.out


@pytest.mark.parametrize(
    "argv", [["llama3-7b"], ["llama3-70b", "--contxt", "5"], ["llama3-70b", "--vram", "80"]], ids=" ".join
)
def test_an_error_on_a_terminal_is_one_line_without_a_box(argv: list[str]) -> None:
    """The same line and hint as in a pipe, so that it can be searched and copied."""
    assert on_a_terminal(*argv)[:2] == (2, process(*argv).err)
