"""Start an IPython kernel, have it run a cell, and print the output of the cell."""

import os
import sys

from jupyter_client.manager import start_new_kernel

CELL = """
import faulthandler, hashlib, sys, torch
sys.path.insert(0, %r)
import guarded_stack
faulthandler.enable()
guarded_stack.guard()
torch.set_num_threads(1)
torch.manual_seed(1)
weights = torch.randn(64, 64)
for step in range(%d):
    weights = torch.tanh(weights @ weights.t() / 64)
print(faulthandler.is_enabled(), hashlib.sha256(weights.numpy().tobytes()).hexdigest())
step
"""

manager, client = start_new_kernel(startup_timeout=120)
texts = []


def output(message):
    content = message["content"]
    texts.append(str(content.get("text") or content.get("data") or content.get("ename") or ""))


reply = client.execute_interactive(CELL % (os.path.dirname(os.path.abspath(__file__)), int(sys.argv[1])), timeout=300, output_hook=output)
client.stop_channels()
manager.shutdown_kernel()
print(reply["content"]["status"], [text for text in texts if text])
