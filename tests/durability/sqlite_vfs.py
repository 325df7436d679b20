"""A VFS inside the very SQLite library that Python's sqlite3 uses: every write, sync, truncation and deletion goes
through a Python function first.

The function sees (kind, path, offset, data) and returns None to let it pass, an SQLite error code to refuse it, or
`SHORT` to write half of the data and then refuse. The shim is the library's default VFS with three of its methods
replaced, so locking, shared memory and everything else are the real ones. (apsw has VFSes too, but brings a SQLite of
its own: faults in it would not be faults in the library that runs.)
"""

import ctypes
import ctypes.util
from collections.abc import Callable
from contextlib import contextmanager

IOERR_WRITE, IOERR_FSYNC, FULL, IOERR_DELETE = 10 | 3 << 8, 10 | 4 << 8, 13, 10 | 10 << 8
SHORT = -1
_VOID, _INT, _INT64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_OPEN = ctypes.CFUNCTYPE(_INT, _VOID, _VOID, _VOID, _INT, _VOID)
_DELETE = ctypes.CFUNCTYPE(_INT, _VOID, ctypes.c_char_p, _INT)
_WRITE = ctypes.CFUNCTYPE(_INT, _VOID, _VOID, _INT, _INT64)
_TRUNCATE = ctypes.CFUNCTYPE(_INT, _VOID, _INT64)
_SYNC = ctypes.CFUNCTYPE(_INT, _VOID, _INT)
_CLOSE = ctypes.CFUNCTYPE(_INT, _VOID)
_METHODS = 19  # pointers of sqlite3_io_methods behind its version
_AT_CLOSE, _AT_WRITE, _AT_TRUNCATE, _AT_SYNC = 0, 2, 3, 4

Hook = Callable[[str, str, int, bytes], int | None]


class _IoMethods(ctypes.Structure):
    _fields_ = [("version", _INT), ("methods", _VOID * (_METHODS - 1))]


class _File(ctypes.Structure):
    _fields_ = [("methods", ctypes.POINTER(_IoMethods))]


class _Vfs(ctypes.Structure):
    _fields_ = [
        ("version", _INT),
        ("file_size", _INT),
        ("path_size", _INT),
        ("next", _VOID),
        ("name", ctypes.c_char_p),
        ("data", _VOID),
        ("open", _VOID),
        ("delete", _VOID),
        ("rest", _VOID * 16),
    ]


def _library() -> ctypes.CDLL:
    import sqlite3

    library = ctypes.CDLL(ctypes.util.find_library("sqlite3"))
    library.sqlite3_libversion.restype = ctypes.c_char_p
    if library.sqlite3_libversion().decode() != sqlite3.sqlite_version:
        raise OSError("Python's sqlite3 has a SQLite of its own, out of reach")
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    return library


class Shim:
    """The VFS; made once, it stays registered and lets everything pass while it has no hook.

    Attributes:
        hook: asked before every change.
        flushes: whether syncs reach the disk.
    """

    def __init__(self) -> None:
        self.hook: Hook | None = None
        self.flushes = True
        self._library = _library()
        self._base = self._library.sqlite3_vfs_find(None).contents
        self._open, self._delete = _OPEN(self._base.open), _DELETE(self._base.delete)
        self._paths: dict[int, str] = {}
        self._tables: dict[int, tuple[_IoMethods, _IoMethods]] = {}
        self._vfs = _Vfs.from_buffer_copy(self._base)
        self._vfs.name = b"faulty"
        self._callbacks = [_OPEN(self._on_open), _DELETE(self._on_delete)]
        self._vfs.open, self._vfs.delete = (ctypes.cast(one, _VOID).value for one in self._callbacks)
        self._vfs.next = None
        self._library.sqlite3_vfs_register(ctypes.byref(self._vfs), 1)

    @contextmanager
    def hooked(self, hook: Hook):
        self.hook = hook
        try:
            yield
        finally:
            self.hook = None

    def _on_open(self, vfs, name, file, flags, out):
        code = self._open(vfs, name, file, flags, out)
        methods = _File.from_address(file).methods
        if code == 0 and methods and name:
            self._paths[file] = ctypes.string_at(name).decode()
            _File.from_address(file).methods = ctypes.pointer(self._table(methods))
        return code

    def _table(self, methods):
        """Return our copy of a table of methods: of the several kinds of files there is one each."""
        address = ctypes.addressof(methods.contents)
        if address not in self._tables:
            real = methods.contents
            ours = _IoMethods()
            size = 3 if real.version >= 3 else real.version
            ctypes.memmove(ctypes.byref(ours), ctypes.byref(real), 8 + 8 * {1: 12, 2: 16, 3: 18}[size])
            callbacks = self._replacements(real)
            for at, callback in callbacks.items():
                ours.methods[at] = ctypes.cast(callback, _VOID).value
            self._tables[address] = (ours, callbacks)
        return self._tables[address][0]

    def _replacements(self, real):
        write, truncate = _WRITE(real.methods[_AT_WRITE]), _TRUNCATE(real.methods[_AT_TRUNCATE])
        sync, close = _SYNC(real.methods[_AT_SYNC]), _CLOSE(real.methods[_AT_CLOSE])

        def on_write(file, data, size, offset):
            verdict = self._ask("write", self._paths[file], offset, ctypes.string_at(data, size))
            if verdict == SHORT:
                write(file, data, size // 2, offset)
                return FULL
            return write(file, data, size, offset) if verdict is None else verdict

        def on_truncate(file, size):
            verdict = self._ask("truncate", self._paths[file], size, b"")
            return truncate(file, size) if verdict is None else FULL if verdict == SHORT else verdict

        def on_sync(file, flags):
            verdict = self._ask("fsync", self._paths[file], 0, b"")
            if verdict is not None:
                return IOERR_FSYNC
            return sync(file, flags) if self.flushes else 0

        def on_close(file):
            self._paths.pop(file, None)
            return close(file)

        return {
            _AT_WRITE: _WRITE(on_write),
            _AT_TRUNCATE: _TRUNCATE(on_truncate),
            _AT_SYNC: _SYNC(on_sync),
            _AT_CLOSE: _CLOSE(on_close),
        }

    def _on_delete(self, vfs, name, directory_sync):
        verdict = self._ask("unlink", name.decode(), 0, b"")
        return self._delete(vfs, name, directory_sync) if verdict is None else IOERR_DELETE

    def _ask(self, kind, path, offset, data):
        return None if self.hook is None else self.hook(kind, path, offset, data)
