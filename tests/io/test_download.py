import hashlib
import io
import subprocess
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lrga.errors import ChecksumError, DataMissingError
from lrga.io.download import RemoteFile, obtain, problem_of
from lrga.io.files import FileFacts

CONTENT = bytes(range(256)) * 4000  # about 1 MB


class Server(ThreadingHTTPServer):
    """Serves CONTENT; ``break_after`` lists after how many bytes each of the next answers ends too early."""

    def __init__(self):
        self.break_after = []
        self.statuses = []
        self.requests = 0
        self.damaged = 0  # how many of the next answers have a wrong byte
        self.content = CONTENT
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.requests += 1
        if server.statuses:
            self.send_error(server.statuses.pop(0))
            return
        body = server.content
        if server.damaged:
            server.damaged -= 1
            body = body[:-1] + b"?"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: server.break_after.pop(0)] if server.break_after else body)

    def log_message(self, *arguments):
        """Quiet."""


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def remote(server, facts=None):
    return RemoteFile(f"http://127.0.0.1:{server.server_port}/file", "file.bin", facts or FileFacts())


def files_in(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_a_file_is_downloaded_once(tmp_path, server):
    seen = []
    (path,) = obtain([remote(server)], tmp_path / "raw", progress=lambda label, done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert files_in(tmp_path / "raw") == ["file.bin"]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert problem_of(remote(server), path) is None
    obtain([remote(server)], tmp_path / "raw")
    assert server.requests == 1  # what is there is not downloaded again


def test_an_interruption_leaves_nothing_that_is_believed(tmp_path, server):
    server.break_after = [1000] * 10
    with pytest.raises(DataMissingError, match="the connection ended after"):
        obtain([remote(server)], tmp_path)
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("status", [404, 503])
def test_an_error_of_the_server_is_named_and_the_next_call_downloads(tmp_path, server, status):
    server.statuses = [status]
    with pytest.raises(DataMissingError, match=str(status)):
        obtain([remote(server)], tmp_path)
    assert obtain([remote(server)], tmp_path)[0].read_bytes() == CONTENT


def test_offline_the_error_says_which_file_to_put_where(tmp_path, server):
    file = remote(server)
    server.shutdown()
    server.server_close()
    with pytest.raises(DataMissingError) as caught:
        obtain([file], tmp_path / "raw")
    assert file.url in str(caught.value)
    assert f"put it at {tmp_path / 'raw' / 'file.bin'}" in str(caught.value)


def test_without_permission_only_a_file_put_there_by_hand_is_taken(tmp_path, server):
    with pytest.raises(DataMissingError, match="downloading is off"):
        obtain([remote(server)], tmp_path, download=False)
    assert server.requests == 0
    (tmp_path / "file.bin").write_bytes(b"by hand")
    assert obtain([remote(server)], tmp_path, download=False)[0].read_bytes() == b"by hand"
    assert server.requests == 0


def test_a_download_with_another_checksum_is_refused(tmp_path, server):
    with pytest.raises(ChecksumError, match="corrupted"):
        obtain([remote(server, FileFacts(len(CONTENT), "0" * 64))], tmp_path)
    assert files_in(tmp_path) == []


def test_a_file_damaged_after_its_download_is_named_and_downloaded_again(tmp_path, server):
    file = remote(server, FileFacts(len(CONTENT), hashlib.sha256(CONTENT).hexdigest()))
    (path,) = obtain([file], tmp_path)
    path.write_bytes(CONTENT[:-1])
    assert "truncated" in str(problem_of(file, path))
    with pytest.raises(ChecksumError, match=r"file\.bin.*truncated"):
        obtain([file], tmp_path, download=False)
    server.statuses = [404]
    with pytest.raises(ChecksumError, match=r"file\.bin.*truncated"):
        obtain([file], tmp_path)
    assert path.read_bytes() == CONTENT[:-1]
    assert obtain([file], tmp_path)[0].read_bytes() == CONTENT
    assert files_in(tmp_path) == ["file.bin"]


def zipped(text):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("inside.txt", text)
    return buffer.getvalue()


def test_a_damaged_archive_is_downloaded_again(tmp_path, server):
    whole = zipped("text " * 1000)
    damaged = whole[: len(whole) // 2] + bytes(16) + whole[len(whole) // 2 + 16 :]
    (tmp_path / "file.zip").write_bytes(damaged)
    server.content = whole
    file = RemoteFile(remote(server).url, "file.zip")
    with pytest.raises(ChecksumError, match="complete archive"):
        obtain([file], tmp_path, download=False)
    assert obtain([file], tmp_path)[0].read_bytes() == whole


def test_what_is_no_archive_is_not_taken_for_one(tmp_path, server):
    """A page of an error, say, sent under the archive's address."""
    server.content = b"<html>please log in</html>"
    file = RemoteFile(remote(server).url, "file.zip")
    with pytest.raises(ChecksumError, match="complete archive"):
        obtain([file], tmp_path)
    assert files_in(tmp_path) == []
    server.content = zipped("text")
    assert obtain([file], tmp_path)[0].read_bytes() == server.content


def test_processes_that_download_at_once_all_succeed(tmp_path, server):
    server.content = CONTENT * 8
    script = (
        "import sys, pathlib\n"
        "from lrga.io.download import RemoteFile, obtain\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "obtain([RemoteFile(sys.argv[1], 'file.bin')], pathlib.Path(sys.argv[2]))\n"
    )
    command = [sys.executable, "-c", script, remote(server).url, str(tmp_path)]
    processes = [subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1, text=True) for _ in range(4)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, errors
    assert (tmp_path / "file.bin").read_bytes() == CONTENT * 8
    assert server.requests == 1
    assert files_in(tmp_path) == ["file.bin"]


def test_several_files_are_obtained_or_all_that_are_missing_named(tmp_path, server):
    files = [RemoteFile(f"{remote(server).url}{name}", name) for name in ("a", "b", "c")]
    assert obtain(files[:2], tmp_path) == [tmp_path / "a", tmp_path / "b"]
    (tmp_path / "a").unlink()
    server.statuses = [404]
    with pytest.raises(DataMissingError) as caught:
        obtain(files, tmp_path)
    assert caught.value.expected == f"the files {tmp_path / 'a'}, {tmp_path / 'c'}"
    assert "404" in caught.value.got
    assert files[0].url in caught.value.remedy
    assert files[2].url in caught.value.remedy
