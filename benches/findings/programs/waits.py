"""Each step waits until a thread has written its metrics."""

import concurrent.futures
import json
import os
import tempfile
import time

import torch
import torch.nn.functional as F
from harness import arguments, classifier, train


def written(path, values):
    with open(path, "w") as file:
        json.dump(values, file)
        file.flush()
        os.fsync(file.fileno())
    time.sleep(0.01)  # a slow file system


def main():
    args = arguments(__doc__)
    model = classifier(256, layers=12)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    features, labels = torch.rand(256, 256), torch.randint(10, (256,))
    writer = concurrent.futures.ThreadPoolExecutor(1)
    folder = tempfile.mkdtemp()

    def step(number):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()
        done = writer.submit(written, os.path.join(folder, "metrics.json"), [loss.item()])
        if not args.mended:
            done.result()  # finding: SL039

    train(args, range(args.steps), step)
    writer.shutdown()


if __name__ == "__main__":
    main()
