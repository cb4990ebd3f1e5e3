"""Tests run side by side, a thread each: small tensors gain nothing from more."""

import os

# For the processes that tests start; this one has read the variable already.
os.environ["OMP_NUM_THREADS"] = "1"

import torch

torch.set_num_threads(1)
