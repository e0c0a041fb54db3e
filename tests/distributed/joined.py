"""Ranks that join and of which one stops: run by real processes, never collected by pytest."""

import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from lrga.distributed.launch import process_group
from lrga.errors import LRGAError, NonFiniteError


def main():
    torch.set_num_threads(1)
    how, rank = sys.argv[1], int(os.environ["RANK"])
    try:
        if how == "builds":
            process_group.TIMEOUT = timedelta(seconds=5)
        with process_group.joined("cpu", patience=4.0):
            print("joined", flush=True)
            with process_group.leader_first():  # which builds data for longer than a collective may take
                if rank == 0 and how == "builds":
                    time.sleep(7)
                if rank == 0 and how == "dies building":
                    time.sleep(2)  # by which the others have joined
                    os.kill(os.getpid(), signal.SIGKILL)
                if rank == 0 and how == "fails building":
                    raise NonFiniteError("a number", "none", "look")
            dist.all_reduce(torch.ones(3))
            if how == "error" and rank == 1:
                raise NonFiniteError("a number", "none", "look")
            if how == "killed" and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            if how == f"hangs {rank}":
                os.kill(os.getpid(), signal.SIGSTOP)
            dist.all_reduce(torch.ones(3))
            time.sleep(0.1)
    except LRGAError as error:
        print(f"Error: {error}", file=sys.stderr, flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
