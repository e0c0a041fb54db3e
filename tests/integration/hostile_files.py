"""Damaged and hostile files of every format that is read, and what reading each of them leads to.

A program: ``python hostile_files.py FORMATS SEED FIRST LAST FOLDER`` reads the files FIRST to LAST - 1 of each format,
under limits of memory and time, and prints a line of JSON for each. A file is a function of format, seed and number.
"""

import copy
import gzip
import hashlib
import io
import json
import os
import pickle
import pickletools
import random
import re
import resource
import shutil
import signal
import struct
import sys
import traceback
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import torch
from torch_geometric.data import Data

from lrga.data.datasets import tsp
from lrga.data.datasets.building import load, overview, verify
from lrga.data.datasets.source import BuildContext
from lrga.data.datasets.spec import SPLITS, spec_of
from lrga.data.datasets.superpixels import read_prepared as read_superpixels
from lrga.data.datasets.superpixels import read_published
from lrga.data.datasets.zinc import read_pickles
from lrga.data.own.edge_list import read_pairs
from lrga.data.own.reading import load_inputs
from lrga.errors import LRGAError
from lrga.experiments.loading import load_runs
from lrga.experiments.records import read_record
from lrga.io.download import extract
from lrga.io.files import facts_of
from lrga.report.page import write_report
from lrga.theory.files import read_graphs
from lrga.training import TrainingConfig, continue_run, load_run, train
from lrga.training.predict import LinkScorer, Predictor
from lrga.training.presets import make_config
from lrga.training.problems.data import plan_run
from lrga.training.runs.folder import RunFolder

MAX_MEMORY = 200_000_000  # that a file may ask for
HEADROOM = 2_000_000_000  # that the process may take beside: what is above counts as a blow-up
SECONDS = 60.0  # for one file
RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results"


class TooLong(BaseException):
    """Not an Exception, so that no reader takes it for damage of its file."""


# --- how files are damaged ---------------------------------------------------------------------------------------

NUMBERS = [
    "-1", "0", "1", "2", "127", "256", "65536", "2147483648", "4294967295", "100000000000", "9223372036854775807",
    "9223372036854775808", "-9223372036854775809", "1" + "0" * 30, "1e400", "-1e400", "1e-400", "nan", "inf",
    "-inf", "0x10",
    "1_000", "007", "+7", "1.5", "7.0", "", " ", "true", "null", "٣", "1" * 5000, "1,2", '"', "'", "\x00", "=1+1", "#",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 10**6, 10**8, 10**11, 2**63, -(2**63) - 1, 10**30, 10**400, 0.5, -0.0, 1e308,
    float("nan"), float("inf"), "", "text", "nan", "1", "\x00", "../../x", "x" * 100_000, [], {}, [None], [[]],
    [1, 2, 3],
    {"a": 1}, {"": None}, [[1], [2, 3]], "ogbl-ddi", "ZINC", "module:factory", "node", "cpu", "cuda:99",
]  # fmt: skip


def mutate(content: bytes, rng: random.Random) -> bytes:
    """Other content: what is packed is mostly damaged inside, so that the outer layer does not refuse it."""
    for inside in (_gzip, _zip, _json, _json_lines, _safetensors, _npy, _pickle):
        if rng.random() < 0.75 and (found := inside(content, rng)) is not None:
            return found
    return rng.choice(BYTES)(content, rng)


def _gzip(content: bytes, rng: random.Random) -> bytes | None:
    if not content.startswith(b"\x1f\x8b"):
        return None
    return gzip.compress(mutate(gzip.decompress(content), rng), 1, mtime=0)


def _zip(content: bytes, rng: random.Random) -> bytes | None:
    if not content.startswith(b"PK\x03\x04"):
        return None
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(members))
    change = rng.randrange(6)
    if change == 0:
        del members[name]
    elif change == 1:
        members[rng.choice(["../out", "/etc/out", name + "x", " ", "a" * 5000, "ü\x00"])] = members.pop(name)
    else:
        members[name] = mutate(members[name], rng)
    kinds, made = [zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA], io.BytesIO()
    with zipfile.ZipFile(made, "w", rng.choice(kinds)) as archive:
        for member, inside in members.items():
            archive.writestr(member, inside)
    packed = bytearray(made.getvalue())
    if rng.random() < 0.15:  # encrypted or of an unknown compression, as far as the headers say
        offset, value = rng.choice([(6, 1), (8, 97), (8, 99), (14, 255), (22, 255)])
        for mark, shift in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
            packed[packed.index(mark) + offset + shift] = value
    return bytes(packed)


def _json(content: bytes, rng: random.Random) -> bytes | None:
    try:
        value = json.loads(content)
    except ValueError:
        return None
    if not isinstance(value, dict | list):
        return None
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        value = _changed(value, rng) if isinstance(value, dict | list) else value
    text = json.dumps(value)
    if rng.random() < 0.1:  # which json would not write
        text = text.replace('""', "[" * 100_000, 1) if '""' in text else text[:-1] + ', "deep": ' + "[" * 100_000
    return text.encode("utf-8", "surrogatepass")


def _changed(value: Any, rng: random.Random) -> Any:
    """A value with one place in it changed."""
    places = [(value, key) for key in (value if isinstance(value, dict) else range(len(value)))]
    for holder, key in places:
        inside = holder[key]
        if isinstance(inside, dict | list):
            places += [(inside, deeper) for deeper in (inside if isinstance(inside, dict) else range(len(inside)))]
    other = copy.deepcopy(rng.choice(VALUES))
    if not places or rng.random() < 0.03:
        return other
    holder, key = rng.choice(places)
    change = rng.randrange(10)
    if change == 0:
        del holder[key]
    elif change == 1 and isinstance(holder, dict):
        holder[rng.choice(["", "extra", "a.b", "\x00"])] = other
    elif change == 2 and isinstance(holder[key], list):
        holder[key] = holder[key] * 2 + [other]
    else:
        holder[key] = other
    return value


def _json_lines(content: bytes, rng: random.Random) -> bytes | None:
    lines = content.split(b"\n")
    if not all(line[:1] == b"{" for line in lines if line) or not content:
        return None
    place = rng.randrange(len(lines))
    lines[place] = mutate(lines[place], rng)
    return b"\n".join(lines)


def _safetensors(content: bytes, rng: random.Random) -> bytes | None:
    length = struct.unpack("<Q", content[:8])[0] if len(content) > 8 else 1 << 40
    if length > len(content) or content[8:9] != b"{":
        return None
    header = _json(content[8 : 8 + length], rng)
    if header is None:
        return None
    return struct.pack("<Q", len(header)) + header + content[8 + length :]


def _npy(content: bytes, rng: random.Random) -> bytes | None:
    if not content.startswith(b"\x93NUMPY"):
        return None
    stream = io.BytesIO(content)
    np.lib.format.read_magic(stream)
    shape, order, dtype = np.lib.format.read_array_header_1_0(stream)
    sizes = [0, 1, 2, 3, len(content), 10**9, 10**13, 2**62, -1]
    shape = rng.choice([shape, tuple(rng.choice(sizes) for _ in range(rng.choice([0, 1, 2, 3, 40])))])
    kinds = ["<f8", ">i4", "<i8", "|b1", "<f2", "<c16", "|S5", "<U3", "<u8", "|V8", "|O", "<M8[s]", [("a", "<i4")]]
    head = {"descr": rng.choice([dtype.str, *kinds]), "fortran_order": rng.choice([order, True]), "shape": shape}
    made = io.BytesIO()
    np.lib.format.write_array_header_1_0(made, head)
    body = stream.read()
    count = 1
    for size in shape:
        count *= size
    if rng.random() < 0.7 and 0 <= count * np.dtype(head["descr"]).itemsize < 10**7:  # as much as the header says
        need = count * np.dtype(head["descr"]).itemsize
        body = (body * (need // max(len(body), 1) + 1))[:need] if body else bytes(need)
    return made.getvalue() + body


def _pickle(content: bytes, rng: random.Random) -> bytes | None:
    """A pickle with one of its numbers or texts changed, or some of its instructions repeated or left out."""
    if content[:1] != b"\x80":
        return None
    try:
        steps = [(opcode, argument, place) for opcode, argument, place in pickletools.genops(content)]
    except Exception:  # not one after all
        return None
    ends = [place for _, _, place in steps[1:]] + [steps[-1][2] + 1]
    parts = [content[place:end] for (_, _, place), end in zip(steps, ends, strict=True)]
    for _ in range(rng.choice([1, 1, 2, 4])):
        place = rng.randrange(1, len(parts) - 1) if len(parts) > 2 else 0
        opcode = steps[place][0].name if place < len(steps) else ""
        change = rng.randrange(5)
        if "INT" in opcode or opcode.startswith("LONG1") or change == 0:
            parts[place] = pickle.dumps(rng.choice([0, 1, -1, 2, 255, 10**6, 10**9, 10**12, 2**63, 10**30]), 2)[2:-1]
        elif "UNICODE" in opcode and change < 3:
            text = rng.choice(["", "x", "edge", "O", "|O8", "f8", "<U9", "os", "y" * 1000])
            parts[place] = pickle.dumps(text, 2)[2:-1]
        elif change == 1:
            parts[place] = parts[place] * rng.choice([0, 2, 3])
        elif change == 2:
            parts[place] = rng.choice(parts)
        elif change == 3:
            opcodes = [b"N", b"]", b"}", b")", b"(", b"0", b"\x85", b"\x86", b"r\xff\xff\xff\xff", b"cos\nsystem\n"]
            parts[place] = rng.choice(opcodes)
        else:
            parts[place] = BYTES[0](parts[place], rng)
    return b"".join(parts) + content[ends[-1] :]


def _flip(content: bytes, rng: random.Random) -> bytes:
    made = bytearray(content)
    for _ in range(rng.choice([1, 1, 3, 20])):
        if made:
            made[rng.randrange(len(made))] = rng.randrange(256)
    return bytes(made)


def _span(content: bytes, rng: random.Random) -> tuple[int, int]:
    first = rng.randrange(len(content) + 1)
    return first, min(len(content), first + rng.choice([1, 4, 16, 256, len(content)]))


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _remove(content: bytes, rng: random.Random) -> bytes:
    first, end = _span(content, rng)
    return content[:first] + content[end:]


def _repeat(content: bytes, rng: random.Random) -> bytes:
    first, end = _span(content, rng)
    return content[:end] + content[first:end] * rng.choice([1, 2, 50]) + content[end:]


def _insert(content: bytes, rng: random.Random) -> bytes:
    first = rng.randrange(len(content) + 1)
    odd = [b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n", b'"', b",", b"\x1f\x8b", b"PK\x03\x04", "😀".encode()]
    return content[:first] + rng.choice([rng.choice(odd), rng.randbytes(20)]) + content[first:]


def _zeros(content: bytes, rng: random.Random) -> bytes:
    first, end = _span(content, rng)
    return content[:first] + bytes(end - first) + content[end:]


def _replace(content: bytes, rng: random.Random) -> bytes:
    large = [b"[" * 100_000, b"\x00" * 3_000_000, b"a" * 3_000_000]
    return rng.choice([b"", b"\n", rng.randbytes(300), *large, b"\xff\xfea\x00"])


def _number(content: bytes, rng: random.Random) -> bytes:
    """One of the numbers in a text is another."""
    found = list(re.finditer(rb"-?\d+(?:\.\d+)?", content))
    if not found:
        return _flip(content, rng)
    match = rng.choice(found)
    return content[: match.start()] + rng.choice(NUMBERS).encode() + content[match.end() :]


def _word(content: bytes, rng: random.Random) -> bytes:
    """One of the words in a text is another of its words."""
    found = list(re.finditer(rb"[^\s,;]+", content))
    if len(found) < 2:
        return _flip(content, rng)
    match, other = rng.choice(found), rng.choice(found)
    return content[: match.start()] + other[0] + content[match.end() :]


BYTES = [_flip, _cut, _remove, _repeat, _insert, _zeros, _replace, _number, _number, _number, _word]


def put_special(path: Path, rng: random.Random) -> str:
    """Something that is no plain file in place of one."""
    kind = rng.choice(["pipe", "device", "folder", "loop", "nowhere", "sparse"])
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "sparse":  # 100 GB that take no place on the disk
        with open(path, "wb") as file:
            file.truncate(10**11)
    else:
        path.symlink_to(path if kind == "loop" else path.with_name("nowhere"))
    return kind


# --- what is read, and how ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Format:
    """Sound files, which of them are damaged, and what reads them.

    Attributes:
        make: Writes sound files into an empty folder.
        files: Patterns of the files to damage.
        read: Reads the folder: several ways, each of which may refuse it.
        sign: Makes checksums fit after a file was damaged, so that the damage is seen by more than the checksum.
    """

    make: Callable[[Path], None]
    files: tuple[str, ...]
    read: Callable[[Path], list[Callable[[], Any]]]
    sign: Callable[[Path], None] | None = None


def _own_config(name: Path, **options: Any) -> Any:
    return make_config(str(name), hidden=8, layers=1, device="cpu", batch_size=4, max_epochs=1, **options)


def make_csv(folder: Path) -> None:
    own = folder / "own"
    own.mkdir()
    nodes = "".join(f"{g},n{n},{n / 2},{g * n}\n" for g in range(18) for n in range(4))
    (own / "nodes.csv").write_text("graph,node,x0,x1\n" + nodes)
    edges = "".join(f"{g},n{n},n{(n + 1) % 4},{n}\n" for g in range(18) for n in range(4))
    (own / "edges.csv").write_text("graph,source,target,type\n" + edges)
    (own / "graphs.csv").write_text("graph,y,split\n" + "".join(f"{g},{g % 3},{SPLITS[g // 6]}\n" for g in range(18)))
    one = folder / "one"
    one.mkdir()
    (one / "nodes.csv").write_text("node,type,y\n" + "".join(f"{n},{n % 5},{'ab'[n % 2]}\n" for n in range(30)))
    (one / "edges.csv").write_text("source,target,w\n" + "".join(f"{n},{n * 7 % 30},0.5\n" for n in range(30)))


def read_csv(folder: Path) -> list[Callable[[], Any]]:
    places = [folder / "own", folder / "one"]
    return [lambda: [plan_run(_own_config(place)) for place in places], lambda: [load_inputs(p) for p in places]]


def make_edge_lists(folder: Path) -> None:
    pairs = [(i, (i * 7 + 3) % 60) for i in range(150)]
    rows = [(i, a, b) for i, (a, b) in enumerate(pairs)]
    lines = [f"n{a},n{b},{i % 5},20{i % 20:02d}-01-02,{SPLITS[i % 3]}\n" for i, a, b in rows]
    (folder / "plain.csv").write_text("source,target,weight,time,split\n" + "".join(lines))
    (folder / "spaces.txt").write_text("# comment\n" + "".join(f"{a} {b} {i}\n" for i, a, b in rows))
    (folder / "tabs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    text = "u,v,year\n" + "".join(f"{a},{b},{1990 + i % 30}\n" for i, a, b in rows)
    (folder / "packed.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def read_edge_lists(folder: Path) -> list[Callable[[], Any]]:
    names = ["plain.csv", "spaces.txt", "tabs.tsv", "packed.csv.gz"]
    plans: list[Callable[[], Any]] = [
        lambda name=name: plan_run(_own_config(folder / name, data_options={"task": "link"})) for name in names
    ]
    by_time = {"task": "link", "split_by": "time"}
    plans += [lambda: plan_run(_own_config(folder / "packed.csv.gz", data_options=by_time))]
    return plans + [lambda name=name: read_pairs(folder / name) for name in names]


def make_torch_files(folder: Path) -> None:
    torch.manual_seed(0)
    same = {"edge_index": torch.tensor([[0, 1, 2], [1, 2, 3]]), "edge_attr": torch.tensor([0, 1, 2])}
    graphs = [Data(x=torch.randn(4, 3), y=i % 2, **same) for i in range(12)]
    torch.save(graphs, folder / "list.pt")
    torch.save(graphs, folder / "old.pt", _use_new_zipfile_serialization=False)
    torch.save({"train": graphs[:6], "val": graphs[6:9], "test": graphs[9:]}, folder / "dict.pt")
    mask = torch.arange(20) % 3
    one = Data(x=torch.arange(20)[:, None], edge_index=torch.randint(0, 20, (2, 40)), y=torch.arange(20) % 2)
    for number, name in enumerate(("train_mask", "val_mask", "test_mask")):
        one[name] = mask == number
    torch.save(one, folder / "one.pt")


def read_torch_files(folder: Path) -> list[Callable[[], Any]]:
    paths = [folder / f"{name}.pt" for name in ("list", "old", "dict", "one")]
    reads: list[Callable[[], Any]] = [lambda path=path: plan_run(_own_config(path)) for path in paths]
    return reads + [lambda path=path: load_inputs(path) for path in paths]


def make_arrays(folder: Path) -> None:
    rng = np.random.default_rng(0)
    count = np.array([2, 3])
    np.savez_compressed(
        folder / "mnist_sp_train.npz", label=np.array([1, 2]), count=count, size=np.array([400, 384, 300, 284, 200]),
        pix_q=np.ones((5, 1), int), pix_r=np.zeros((5, 1), int),
        pos_q=np.ones((5, 2), int), pos_r=np.zeros((5, 2), int),
    )  # fmt: skip
    n, tour = np.array([5, 6], np.int32), np.r_[:5, :6].astype(np.int32)
    np.savez(folder / "tsp_train.npz", n=n, xy=rng.integers(0, 65536, (11, 2), np.uint16), tour=tour)


def read_array_files(folder: Path) -> list[Callable[[], Any]]:
    return [
        lambda: read_superpixels(folder / "mnist_sp_train.npz", 28, 1),
        lambda: tsp.tour_graphs(tsp.read_prepared(folder / "tsp_train.npz"), neighbours=3),
    ]


def make_ogb(folder: Path) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))
    from data_files import make_ogb as make

    make(folder / "ogbl_ddi", "ogbl-ddi")
    make(folder / "ogbl_collab", "ogbl-collab")


def read_ogb(folder: Path) -> list[Callable[[], Any]]:
    return [
        lambda: spec_of("ogbl-ddi").build(BuildContext(folder, folder, folder / "ogbl_ddi")),
        lambda: spec_of("ogbl-collab").build(BuildContext(folder, folder, folder / "ogbl_collab")),
    ]


def make_pickles(folder: Path) -> None:
    rng = np.random.default_rng(0)
    molecules = []
    for number in range(6):
        bonds = np.triu(rng.integers(0, 4, (5, 5)), 1)
        molecules.append({
            "num_atom": 5, "atom_type": torch.from_numpy(rng.integers(0, 28, 5)),
            "bond_type": torch.from_numpy(bonds + bonds.T),
            "logP_SA_cycle_normalized": torch.tensor([number / 2]),
        })  # fmt: skip
    (folder / "train.pickle").write_bytes(pickle.dumps(molecules, 2))
    arrays = [{key: v if key == "num_atom" else np.asarray(v) for key, v in one.items()} for one in molecules]
    (folder / "val.pickle").write_bytes(pickle.dumps(arrays, 4))
    for split in ("train", "val"):
        (folder / f"{split}.index").write_text("0,2,3,5")
    images = [(rng.random((12, 1)), rng.random((12, 2)), np.arange(12)) for _ in range(4)]
    (folder / "mnist_75sp_train.pkl").write_bytes(pickle.dumps((np.array([1, 2, 3, 9], np.int32), images), 2))


def read_pickle_files(folder: Path) -> list[Callable[[], Any]]:
    return [
        lambda: read_pickles(folder / "train.pickle", folder / "train.index")[:2],
        lambda: read_pickles(folder / "val.pickle", folder / "val.index")[:2],
        lambda: read_published(folder / "mnist_75sp_train.pkl", 28, 1),
    ]


def make_archives(folder: Path) -> None:
    content = bytes(range(256)) * 10
    for number, kind in enumerate((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)):
        with zipfile.ZipFile(folder / f"molecules{number}.zip", "w", kind) as zipped:
            zipped.writestr("molecules/a", content)
            zipped.writestr("molecules/b", content)


def read_archives(folder: Path) -> list[Callable[[], Any]]:
    archives = [folder / f"molecules{number}.zip" for number in range(4)]
    return [lambda path=path: extract(path, folder / "out") for path in archives]


def make_run(folder: Path) -> None:
    config = _own_config(Path("CLUSTER"), data_options={"sizes": (8, 4, 4)}, root=str(folder / "data"))
    train(config, folder / "run")


def make_link_run(folder: Path) -> None:
    make_edge_lists(folder)
    train(_own_config(folder / "tabs.tsv", data_options={"task": "link"}), folder / "run")


def _resumed(folder: Path) -> Any:
    for name in ("config.json", "model.json"):  # damage that would make the epoch long is not looked for here
        if (folder / "run" / name).is_file() and (folder / "run" / name).stat().st_size > 10_000:
            return None
    return continue_run(folder / "run", max_epochs=2)


def read_run(folder: Path) -> list[Callable[[], Any]]:
    run = folder / "run"
    return [
        lambda: load_run(run),
        lambda: load_run(run, which="best"),
        lambda: RunFolder(run).history(),
        lambda: RunFolder(run).environments(),
        lambda: TrainingConfig.load(run / "config.json"),
        lambda: Predictor.of(run, device="cpu").read("CLUSTER/test"),
        lambda: write_report([run], folder / "page.html"),
        lambda: train(RunFolder(run).config(), run),
        lambda: _resumed(folder),
    ]


def _read_and_resume(folder: Path, other: Callable[[Path], Any]) -> list[Callable[[], Any]]:
    run = folder / "run"
    report = lambda: write_report([run], folder / "page.html")  # noqa: E731
    return [lambda: load_run(run), lambda: other(run), report, lambda: _resumed(folder)]


def read_unfinished_run(folder: Path) -> list[Callable[[], Any]]:
    (folder / "run" / "result.json").unlink(missing_ok=True)
    return _read_and_resume(folder, lambda run: RunFolder(run).checkpoint())


def read_link_run(folder: Path) -> list[Callable[[], Any]]:
    return _read_and_resume(folder, lambda run: LinkScorer.of(run, device="cpu").top(0))


def sign_run(folder: Path) -> None:
    """Checkpoints with the sizes and checksums that their files now have; other checksums are left out."""
    for path in folder.glob("run/**/*.json"):
        try:
            values = json.loads(path.read_text())
            values.pop("sha256", None)
            for name, facts in values.get("files", {}).items():
                content = (path.parent / name).read_bytes()
                facts |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            path.write_text(json.dumps(values))
        except (ValueError, KeyError, TypeError, OSError, AttributeError, RecursionError):
            continue


def make_records(folder: Path) -> None:
    for number, path in enumerate(sorted((RESULTS / "table1").glob("*.json"))[:2]):
        shutil.copy(path, folder / f"record{number}.json")
    for number, path in enumerate(sorted((RESULTS / "speed").rglob("*.json"))[:2]):
        shutil.copy(path, folder / f"speed{number}.json")


def read_records(folder: Path) -> list[Callable[[], Any]]:
    paths = sorted(folder.glob("record*.json"))
    reads: list[Callable[[], Any]] = [lambda path=path: read_record(path) for path in paths]
    return [*reads, lambda: load_runs([folder]), lambda: write_report([folder], folder / "page.html")]


def make_data_set(folder: Path) -> None:
    load("CLUSTER", folder / "root", sizes=(6, 2, 2))
    make_ogb(folder / "source")
    load("ogbl-ddi", folder / "root", source=folder / "source")
    (folder / "root" / "ZINC" / "raw").mkdir(parents=True)
    (folder / "root" / "ZINC" / "raw" / "train.index").write_text("1,2,3")


def sign_data_set(folder: Path) -> None:
    for manifest in folder.rglob("manifest.json"):
        try:
            values = json.loads(manifest.read_text())
            for name in values["files"]:
                facts = facts_of(manifest.parent / name)
                values["files"][name] = {"size": facts.size, "sha256": facts.sha256}
            manifest.write_text(json.dumps(values))
        except (ValueError, KeyError, TypeError, OSError, AttributeError, RecursionError):
            continue


def read_data_set(folder: Path) -> list[Callable[[], Any]]:
    root = folder / "root"

    def use() -> None:
        splits = load("CLUSTER", root, sizes=(6, 2, 2), download=False)
        for split in SPLITS:
            for batch in splits[split].batches(2):
                _ = (batch.x, batch.y, batch.edge_index)

    return [
        use,
        lambda: load("ogbl-ddi", root, download=False).check("here"),
        lambda: overview(root),
        lambda: [verify(name, root) for name in ("CLUSTER", "ogbl-ddi", "ZINC")],
    ]


def make_graph_files(folder: Path) -> None:
    (folder / "a.g6").write_text("Bw\nDqK\n>>graph6<<Cr\n")
    (folder / "a.txt").write_text("".join(f"{i} {(i * 3 + 1) % 9} {i % 2}\n" for i in range(12)) + "lonely\n")
    nodes = "".join(f'<node id="n{i}"><data key="d0">{i % 2}</data></node>' for i in range(5))
    edges = "".join(f'<edge source="n{i}" target="n{(i + 1) % 5}"/>' for i in range(5))
    keys = '<key id="d0" for="node" attr.name="label" attr.type="int"/>'
    (folder / "a.graphml").write_text(
        f'<?xml version="1.0"?><graphml>{keys}<graph edgedefault="undirected">{nodes}{edges}</graph></graphml>'
    )
    ring = networkx.cycle_graph(5)
    writers = {"gml": "gml", "gexf": "gexf", "net": "pajek", "s6": "sparse6", "adjlist": "adjlist"}
    for ending, writer in writers.items():
        path = folder / f"a.{ending}"
        getattr(networkx, f"write_{writer}")(ring, path)
        try:
            read_graphs(path)
        except LRGAError:  # one of the formats that are not read
            path.unlink()


def read_graph_files(folder: Path) -> list[Callable[[], Any]]:
    return [lambda path=path: read_graphs(path) for path in sorted(folder.glob("a.*"))]


FORMATS: dict[str, Format] = {
    "csv": Format(make_csv, ("*/*.csv",), read_csv),
    "edge list": Format(make_edge_lists, ("*",), read_edge_lists),
    "torch file": Format(make_torch_files, ("*.pt",), read_torch_files),
    "npz": Format(make_arrays, ("*.npz",), read_array_files),
    "ogb": Format(make_ogb, ("**/*.csv.gz", "**/*.pt"), read_ogb),
    "pickle": Format(make_pickles, ("*",), read_pickle_files),
    "archives": Format(make_archives, ("*",), read_archives),
    "run": Format(make_run, ("run/*.json", "run/*.jsonl", "run/*.safetensors"), read_run, sign_run),
    "unfinished run": Format(
        make_run, ("run/model.json", "run/checkpoints/*/*", "run/log.txt", "run/metrics.jsonl"), read_unfinished_run,
        sign_run,
    ),
    "link run": Format(
        make_link_run, ("run/**/*.json", "run/*.jsonl", "run/**/*.safetensors"), read_link_run, sign_run
    ),
    "records": Format(make_records, ("*.json",), read_records),
    "data set": Format(make_data_set, ("root/**/*.json", "root/**/*.safetensors"), read_data_set, sign_data_set),
    "graph files": Format(make_graph_files, ("a.*",), read_graph_files),
}  # fmt: skip


# --- reading them ------------------------------------------------------------------------------------------------


def damage(folder: Path, form: Format, rng: random.Random) -> str:
    """Damages one of the files; what was done, in words."""
    files = sorted({path for pattern in form.files for path in folder.glob(pattern) if path.is_file()})
    path = rng.choice(files)
    if rng.random() < 0.08:
        return f"{path.relative_to(folder)}: {put_special(path, rng)}"
    path.write_bytes(mutate(path.read_bytes(), rng))
    if form.sign is not None and rng.random() < 0.8:
        form.sign(folder)
    return str(path.relative_to(folder))


def try_reading(form: Format, folder: Path) -> tuple[str, str]:
    """What came of reading: ``accepted``, ``clean``, ``traceback``, ``memory`` or ``time``; and the error."""
    outcome, told = "accepted", ""
    for read in form.read(folder):
        try:
            read()
        except LRGAError as error:
            outcome, told = "clean", str(error)
        except MemoryError:
            return "memory", traceback.format_exc()
        except TooLong:
            return "time", traceback.format_exc()
        except Exception:
            return "traceback", traceback.format_exc()
    return outcome, told


def _say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def _stop(*_: object) -> None:
    raise TooLong


def read_some(name: str, seed: int, first: int, last: int, place: Path) -> None:
    """Reads the files ``first`` to ``last - 1`` of a format; makes its sound files where they are not there yet."""
    form, sound, case = FORMATS[name], place / name / "sound", place / name / "case"
    if not sound.exists():
        sound.mkdir(parents=True)
        form.make(sound)
    shutil.rmtree(case, ignore_errors=True)
    shutil.copytree(sound, case)
    outcome, told = try_reading(form, case)  # shows that the readers read, and loads all that they need
    _say(format=name, number=-1, outcome=outcome, file="sound", told=told)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + HEADROOM, resource.RLIM_INFINITY))
    for number in range(first, last):
        shutil.rmtree(case)
        shutil.copytree(sound, case)
        what = damage(case, form, random.Random(f"{name} {seed} {number}"))
        _say(format=name, number=number, outcome="started", file=what)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            outcome, told = try_reading(form, case)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        _say(format=name, number=number, outcome=outcome, file=what, told=told[-3000:])
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def main(names: str, seed: int, first: int, last: int, place: Path) -> None:
    """Reads files of one or several formats, separated by commas."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _stop)
    os.environ |= {"LRGA_MAX_MEMORY": str(MAX_MEMORY), "LRGA_DATA": str(place / "default")}
    os.chdir(place)
    for name in names.split(","):
        read_some(name, seed, first, last, place)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
