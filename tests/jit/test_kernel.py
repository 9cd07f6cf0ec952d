"""Functions are compiled once for a machine, in the background; without numba all goes on."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import small_kernels
from eventually import eventually
from threads_left import no_thread_is_left

import tallymark.jit
from tallymark.jit import kernel as kernel_module
from tallymark.jit.compiler import _sources
from tallymark.jit.kernel import SWITCH, Kernel, NotReadyError
from tallymark.jit.store import CodeStore, default_store

pytestmark = pytest.mark.process
SCRIPT = small_kernels.__file__ or ""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for compiled code that is empty at first; the temporary one is elsewhere."""
    pytest.importorskip("numba")
    monkeypatch.setenv("TALLYMARK_CACHE", str(tmp_path / "cache"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.delenv(SWITCH, raising=False)
    return tmp_path / "cache/compiled"


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the compiled code of ADD."""
    pytest.importorskip("numba")
    folder = tmp_path_factory.mktemp("compiled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TALLYMARK_CACHE", str(folder))
        patch.delenv(SWITCH, raising=False)
        assert warmed().ready()
    return folder / "compiled"


@pytest.fixture
def known(cache: Path, compiled_once: Path) -> Path:
    """The test's folder, after another process has compiled ADD."""
    shutil.copytree(compiled_once, cache)
    return cache


def warmed(kernel: Kernel | None = None) -> Kernel:
    kernel = kernel or small_kernels.new()
    with no_thread_is_left():
        kernel.warm()
        kernel.wait(200)
    return kernel


def codes(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.code"))


def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a compiler was started")

    monkeypatch.setattr(subprocess, "run", refuse)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{one.levelname} {one.getMessage()}" for one in caplog.records]


def test_what_is_compiled_is_kept_for_the_next_process(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    package = Path(tallymark.jit.__file__).parent
    before = sorted(package.rglob("*.nb?"))
    kernel = small_kernels.new()
    assert not kernel.ready()
    with pytest.raises(NotReadyError):
        kernel["add"]
    assert warmed(kernel)["add"](7) == 17
    with pytest.raises(TypeError):
        kernel["add"]("7")
    assert len(codes(cache)) == 1
    assert cache.stat().st_mode & 0o777 == 0o700
    assert codes(cache)[0].stat().st_mode & 0o777 == 0o600
    nothing_is_compiled(monkeypatch)
    assert warmed()["add"](7) == 17
    assert sorted(package.rglob("*.nb?")) == before
    assert lines(caplog) == []


def test_warming_does_not_wait_and_may_be_asked_for_by_many_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[Kernel] = []

    def load_slowly(kernel: Kernel) -> dict[str, object]:
        started.append(kernel)
        time.sleep(0.2)
        return {}

    monkeypatch.setattr(Kernel, "_loaded", load_slowly)
    kernel = small_kernels.new()
    begin = time.monotonic()
    askers = [threading.Thread(target=kernel.warm) for _ in range(8)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert not kernel.ready() or time.monotonic() - begin > 0.2
    assert kernel.wait(30)
    kernel.warm()
    assert started == [kernel]


@pytest.mark.parametrize("word", ["0", "off", " No ", "FALSE"])
def test_it_can_be_switched_off(
    word: str, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv(SWITCH, word)
    nothing_is_compiled(monkeypatch)
    assert not warmed().ready()
    assert lines(caplog) == [
        "INFO no compiled code for adding, which is slower: TALLYMARK_JIT switches that off"
    ]
    assert not cache.exists()


def test_without_numba_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setitem(sys.modules, "numba", None)  # the import fails
    kernel = warmed()
    kernel.warm()
    assert not kernel.ready()
    why = "numba is not installed (pip install 'tallymark[fast]')"
    assert lines(caplog) == [f"INFO no compiled code for adding, which is slower: {why}"]


def test_where_numba_compiles_nothing_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With NUMBA_DISABLE_JIT, as developers set it, its functions are those of Python."""
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    assert not warmed().ready()
    (line,) = lines(caplog)
    assert line.endswith("CompilingSwitchedOffError: NUMBA_DISABLE_JIT is set")


def test_a_python_that_numba_does_not_know_is_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """numba checks versions when it is imported: ImportError, or whatever its parts raise."""

    def load(*_: object) -> None:
        raise ImportError("Numba needs NumPy 2.5 or less.\nGot NumPy 9.9.")

    monkeypatch.setattr("tallymark.jit.compiler.load", load)
    assert not warmed().ready()
    why = "ImportError: Numba needs NumPy 2.5 or less. Got NumPy 9.9."
    assert lines(caplog) == [f"WARNING no compiled code for adding, which is slower: {why}"]


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (small_kernels.BAD, "the compiler ended with 1: "),
        (small_kernels.CRASH, "the compiler ended with 1: AttributeError: "),
        (small_kernels.NO_TYPES, "name 'int65' is not defined"),
    ],
)
def test_what_does_not_compile_is_one_line(
    kernel: Kernel, why: str, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert not warmed(small_kernels.new(kernel)).ready()
    (line,) = lines(caplog)
    assert line.startswith("WARNING no compiled code for ")
    assert why in line
    assert codes(cache) == []


@pytest.mark.parametrize("ended_by", ["a signal", "the time limit"])
def test_a_compiler_that_dies_ends_no_other_process(
    ended_by: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """LLVM may crash on a machine that it does not know."""
    script = (
        f"import os, time; {'os.kill(os.getpid(), 11)' if 'sig' in ended_by else 'time.sleep(60)'}"
    )
    run = subprocess.run

    def crash(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        return run([sys.executable, "-c", script], **options)

    monkeypatch.setattr(subprocess, "run", crash)
    monkeypatch.setattr(kernel_module, "COMPILE_SECONDS", 3.0)
    assert not warmed().ready()
    (line,) = lines(caplog)
    assert f"ended with {-signal.SIGSEGV}" in line or "TimeoutExpired" in line


def flip(data: bytes) -> bytes:
    return data[:-200] + bytes((data[-200] ^ 1,)) + data[-199:]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: b"garbage" * 1000, id="garbage", marks=pytest.mark.soak),
        pytest.param(lambda data: data[:-1], id="cut"),
        pytest.param(lambda data: data[:30], id="cut short", marks=pytest.mark.soak),
        pytest.param(lambda data: data + b"x", id="longer", marks=pytest.mark.soak),
        pytest.param(flip, id="one bit"),
    ],
)
def test_damaged_code_is_never_run_but_compiled_again(
    damage: Any, known: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A bit of machine code that is another one may do anything."""
    (file,) = codes(known)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert warmed()["add"](7) == 17
    (file,) = codes(known)
    assert len(file.read_bytes()) > len(whole) // 2
    assert lines(caplog) == []


def test_whole_code_that_numba_cannot_load_is_compiled_again(known: Path) -> None:
    store = CodeStore(known)
    (file,) = codes(known)
    store.write(file.stem, b"no pickle")
    assert warmed()["add"](7) == 17
    assert len(codes(known)[0].read_bytes()) > 1000


@pytest.mark.parametrize(
    "obstacle",
    ["no folder", *(pytest.param(one, marks=pytest.mark.soak) for one in ("read-only", "no home"))],
)
def test_where_nothing_can_be_written_it_is_compiled_for_this_process(
    obstacle: str,
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Containers have read-only file systems, and users without a home."""
    if obstacle == "no folder":
        monkeypatch.setenv("TALLYMARK_CACHE", "/dev/null/cache")
    elif obstacle == "no home":
        monkeypatch.delenv("TALLYMARK_CACHE")
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setenv("HOME", "/dev/null")
    else:
        (cache / "lock").mkdir(parents=True)  # as root, who runs tests, may write anywhere
        cache.chmod(0o700)
    assert warmed()["add"](7) == 17
    assert list((tmp_path / "temporary").iterdir()) == []
    assert lines(caplog) == []


def test_where_no_folder_can_be_had_at_all_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TALLYMARK_CACHE", "/dev/null/cache")
    monkeypatch.setattr("tempfile.tempdir", "/dev/null/temporary")
    assert not warmed().ready()
    (line,) = lines(caplog)
    assert "NotADirectoryError" in line


def test_code_that_others_could_have_placed_is_not_run(known: Path) -> None:
    (file,) = codes(known)
    store = CodeStore(known)
    assert store.read(file.stem) is not None
    file.chmod(0o666)
    assert store.read(file.stem) is None
    file.chmod(0o600)
    link = known / "link.code"
    link.symlink_to(file)
    assert store.read("link") is None
    known.chmod(0o777)
    assert default_store() is None
    known.chmod(0o700)
    assert default_store() is not None


def test_a_changed_helper_or_constant_is_compiled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """numba's own cache looks at the one file that the function is in."""
    before = _sources(small_kernels.ADD)
    assert _sources(small_kernels.ADD) == before
    monkeypatch.setattr(small_kernels, "STEP", 4)
    assert _sources(small_kernels.ADD) != before
    monkeypatch.setattr(small_kernels, "STEP", 3)
    changed = Kernel("", "", small_kernels.ADD.functions, (small_kernels.no_such,))
    assert _sources(changed) != before


def test_so_is_a_function_that_calls_another_one() -> None:
    """An upgrade put ``min`` where ``max`` had been. Nothing else of the code was different, so the
    old machine code was loaded."""

    def first(one: int, other: int) -> int:
        return max(one, other)

    def second(one: int, other: int) -> int:
        return min(one, other)

    second.__name__ = first.__name__
    kinds = [Kernel("", "", {each: "int64(int64, int64)"}) for each in (first, second)]
    assert _sources(kinds[0]) != _sources(kinds[1])


# --- processes


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, SCRIPT, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.soak
def test_four_processes_at_once_compile_for_the_first_time(cache: Path) -> None:
    said = [process.communicate(timeout=250) for process in [start() for _ in range(4)]]
    assert said == [("17 True\n", "")] * 4
    assert len(codes(cache)) == 1
    assert sorted(path.name for path in cache.iterdir()) == [codes(cache)[0].name, "lock"]


@pytest.mark.soak
@pytest.mark.parametrize("folder", ["cache", "known"], ids=["compiling", "loading"])
def test_a_process_ends_while_it_warms(folder: str, request: pytest.FixtureRequest) -> None:
    """Whatever the thread does just then: it delays no exit, and crashes none."""
    cache: Path = request.getfixturevalue(folder)
    for delay in (0.0, 0.2, 0.5, 0.8, 1.2):
        command = (
            "import sys, time, small_kernels as s; s.ADD.warm(); "
            f"time.sleep({delay}); print(time.time()); sys.exit(7)"
        )
        environment = os.environ | {"PYTHONPATH": str(Path(SCRIPT).parent)}
        process = subprocess.run(
            [sys.executable, "-c", command],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        ended = time.time() - float(process.stdout)
        assert (process.returncode, process.stderr) == (7, "")
        assert ended < 60, f"it took {ended:.1f} s to end"
    # On a loaded machine none of them has come so far as to start the compiler.
    assert start().communicate(timeout=250) == ("17 True\n", "")
    eventually(lambda: len(codes(cache)) == 1, what="the compiler finished")


@pytest.mark.usefixtures("known")
def test_a_fork_warms_for_itself() -> None:
    """A fork has the state of its parent, but none of its threads."""
    kernel = small_kernels.new()
    kernel._thread = threading.Thread(
        target=print
    )  # as a fork sees a thread that ran: it has ended
    assert warmed(kernel).ready()


def test_nothing_that_applications_import_imports_numba() -> None:
    """It costs 0.4 s and 100 MB: a command or a small producer must not pay that."""
    command = (
        "import sys, tallymark, tallymark.client, tallymark.cli.main, tallymark.protocol.api, "
        "tallymark.serialization, tallymark.testing, tallymark_audit, "
        "tallymark_audit.reporters.producer.interceptor, "
        "tallymark.protocol.records.compiled.kernel; "
        "from tallymark.client import Producer, SimpleConsumer; "
        "import tallymark.protocol.records.columns; "
        "print([name for name in ('numba', 'llvmlite') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=False, timeout=100
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
